// A loss as a function of a whole batch, for what a function of one output and its labels cannot
// say: several inputs and results, several losses, a network that is called twice.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/loss_function.h"
#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// Calls the network, or parts of it, and returns a scalar loss:
//
//   amp::TrainStep step(net, [&](Batch& batch) {
//     const nn::Tensors towers = net(batch.inputs);
//     return mse_loss(sum(towers[0] * towers[1], {1}), batch.labels[0]);
//   }, optimizer, scaler);
//
// The network's setting, or the policy of the step, or the region in which it is called, applies to
// all modules that the function calls, also to parts of the network. It gets their results in f32,
// and what it computes itself is in f32 at every level.
// The function gets a part of a batch if there are micro-batches or several processes, and parts
// are combined by the kind of the loss, as described in loss_function.h. It may set Batch::output
// for metrics. In graph mode it is captured, so it must do the same for all batches of a shape.
class LossOfBatch {
 public:
  using Function = std::function<Tensor(Batch& batch)>;
  using Count = std::function<Tensor(const Batch& batch)>;

  // A mean over the examples.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, LossOfBatch> &&
           !std::same_as<std::remove_cvref_t<F>, std::nullptr_t> &&
           !std::constructible_from<LossFunction::Function, F> &&
           std::constructible_from<Function, F>)
      LossOfBatch(F loss)  // NOLINT(google-explicit-constructor): as functions are
      : loss_(std::move(loss)) {}

  // A sum over the examples. Throws ArgumentError if the function is null.
  static LossOfBatch sum_of(Function sum);
  // sum(batch) / count(batch), where both are scalars, and the sum is 0 if the count is: a mean
  // over what the labels say counts, such as tokens. `ignore_index`: the label that is not counted,
  // for metrics. Throws ArgumentError if a function is null.
  static LossOfBatch mean_over(Count count, Function sum,
                               std::optional<std::int64_t> ignore_index = std::nullopt);
  // The loss of a network's only result and the only labels. The network gets all inputs, under the
  // policy, or in the caller's region if there is none: the policy of a step or a plan that is
  // given this loss does not apply to it.
  static LossOfBatch of(LossFunction loss, nn::Module& net, std::optional<Policy> policy);

  bool operator==(std::nullptr_t) const { return loss_ == nullptr; }

  // The loss itself.
  Tensor operator()(Batch& batch) const;
  // As of a LossFunction.
  bool adds_up() const { return adds_up_; }
  Tensor count(const Batch& batch) const;
  Tensor sum(Batch& batch) const { return sum_(batch); }
  std::optional<std::int64_t> ignore_index() const { return ignore_index_; }
  bool has_classes_last() const { return has_classes_last_; }
  BatchLoss of_batch(Batch& batch) const;

  // The same loss with its own regions: for the modules that it calls, the network's own setting
  // as it is now, or else the policy, or else the caller's region; outside of them nothing is cast.
  LossOfBatch with_regions(const nn::Module& net, const std::optional<Policy>& policy) const;

 private:
  LossOfBatch() = default;

  Function loss_;
  Function sum_;  // null unless there is a count
  Count count_;
  bool adds_up_ = false;
  bool has_classes_last_ = false;
  bool has_regions_ = false;
  std::optional<std::int64_t> ignore_index_{};
};

}  // namespace mezzo::amp
