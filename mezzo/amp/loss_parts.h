// What the loss of a part of a batch contributes to a training step.
#pragma once

#include <cstdint>

#include "mezzo/amp/loss_function.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::amp {

// A batch comes in micro-batches and in the batches of several processes. Their contributions, with
// their weights, add up to the loss of the whole batch over micro-batches, and are averaged to it
// over processes, as gradients are. A part that counts nothing contributes 0; if all count nothing,
// all contribute NaN where the loss is a mean.
class LossParts {
 public:
  // `processes` must outlive it; null: this one alone.
  LossParts(LossFunction loss, distributed::ProcessGroup* processes)
      : loss_(std::move(loss)), processes_(processes) {}

  // What the parts of one step have in common. By default nothing: one part is the whole batch.
  // Tensors of a capture are placeholders, so nobody keeps it after the step.
  struct Whole {
    Tensor divisor{};  // of sums; undefined if there is none
    Tensor ratio{};    // of means: what this process's examples are to those of an average one
  };
  // Before the first part of a step: finds out what the whole batch counts, which processes tell
  // each other as host work. `labels` are all of this process. Throws ArgumentError for a count
  // that takes part in differentiation, if the batch has several parts.
  Whole begin(const Tensor& labels, std::int64_t examples, std::int64_t micro_batches);

  struct Part {
    Tensor loss;        // f32 of f32 outputs
    double weight = 1;  // it contributes as much of it
  };
  // Of one part, which has that share of this process's examples. Throws ArgumentError unless the
  // loss is one number.
  Part part_of(const Tensor& output, const Tensor& labels, const Whole& whole, double share) const;

  const LossFunction& loss() const { return loss_; }

 private:
  Whole share(const Tensor& count, std::int64_t examples);

  LossFunction loss_;
  distributed::ProcessGroup* processes_;
  Tensor shared_;  // what processes have exchanged; the same tensor in every run
};

}  // namespace mezzo::amp
