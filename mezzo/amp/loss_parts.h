// The contribution of a part of a batch to the loss of a training step.
#pragma once

#include <cstdint>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/loss_of_batch.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::amp {

// A batch consists of micro-batches and of the batches of several processes. Their weighted
// contributions are summed over micro-batches and averaged over processes, like gradients, to give
// the loss of the whole batch. A part that counts nothing contributes 0; if no part counts
// anything, all contribute NaN where the loss is a mean.
class LossParts {
 public:
  // `processes` must outlive this object; null: this process alone.
  LossParts(LossOfBatch loss, distributed::ProcessGroup* processes)
      : loss_(std::move(loss)), processes_(processes) {}

  // Values that the parts of one step share. By default there are none: one part is the whole
  // batch. Tensors of a capture are placeholders, so this must not be kept after the step.
  struct Whole {
    Tensor divisor{};  // divisor of sums; undefined if there is none
    Tensor ratio{};    // factor of means: this process's examples / the average number of examples
  };
  // Called before the first part of a step. Computes the count of the whole batch; several
  // processes exchange their counts as host work. `batch` is all of this process. Throws
  // ArgumentError for a count that takes part in differentiation if the batch has several parts.
  Whole begin(const Batch& batch, std::int64_t micro_batches);

  struct Part {
    Tensor loss;        // f32 if outputs are f32
    double weight = 1;  // factor of its contribution
  };
  // Runs the forward pass and the loss of one part, which has the given share of this process's
  // examples, and returns its contribution. Throws ArgumentError unless the loss is a scalar.
  Part part_of(Batch part, const Whole& whole, double share) const;

  const LossOfBatch& loss() const { return loss_; }

 private:
  Whole share(const Tensor& count, const Batch& batch);

  LossOfBatch loss_;
  distributed::ProcessGroup* processes_;
  // The value that processes have exchanged; the same tensor in every run on a device.
  Tensor shared_;
};

}  // namespace mezzo::amp
