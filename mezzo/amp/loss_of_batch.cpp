#include "mezzo/amp/loss_of_batch.h"

#include <memory>

#include "mezzo/amp/forward.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/module_region.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {
namespace {

// The labels of a loss that takes one tensor. 16-bit targets are compared with an output in f32.
Tensor only_labels(const Batch& batch) {
  check_arg(batch.labels.size() == 1, "loss", "takes one tensor of labels, and the batch has ",
            batch.labels.size(), ". Give one, or use a LossOfBatch");
  const Tensor& labels = batch.labels.front();
  return labels.defined() && is_lower(labels.dtype()) ? labels.astype(DType::kF32) : labels;
}

}  // namespace

LossOfBatch LossOfBatch::sum_of(Function sum) {
  check_arg(sum != nullptr, "loss", "the function of the sum is null. Give one");
  LossOfBatch result;
  result.loss_ = std::move(sum);
  result.adds_up_ = true;
  return result;
}

LossOfBatch LossOfBatch::mean_over(Count count, Function sum,
                                   std::optional<std::int64_t> ignore_index) {
  check_arg(sum != nullptr && count != nullptr, "loss",
            "the function of the sum or of the count is null. Give both");
  LossOfBatch result;
  result.loss_ = [sum, count](Batch& batch) {
    const Tensor total = sum(batch);
    return total / count(batch).astype(total.dtype());
  };
  result.sum_ = std::move(sum);
  result.count_ = std::move(count);
  result.ignore_index_ = ignore_index;
  return result;
}

LossOfBatch LossOfBatch::of(LossFunction loss, nn::Module& net, std::optional<Policy> policy) {
  LossOfBatch result;
  if (loss == nullptr) return result;
  const auto shared = std::make_shared<const LossFunction>(std::move(loss));
  const auto run = [shared, &net, policy = std::move(policy)](Batch& batch) {
    batch.output = forward_for(*shared, net, batch.inputs, policy);
  };
  // A region in which the step is called applies to the network alone.
  result.loss_ = [shared, run](Batch& batch) {
    run(batch);
    const NoAutocast outside;
    return (*shared)(batch.output, only_labels(batch));
  };
  result.sum_ = [shared, run](Batch& batch) {
    run(batch);
    const NoAutocast outside;
    return shared->sum(batch.output, only_labels(batch));
  };
  result.count_ = [shared](const Batch& batch) { return shared->count(only_labels(batch)); };
  result.adds_up_ = shared->adds_up();
  result.ignore_index_ = shared->ignore_index();
  result.has_classes_last_ = shared->has_classes_last();
  result.has_regions_ = true;
  return result;
}

LossOfBatch LossOfBatch::with_regions(const nn::Module& net,
                                      const std::optional<Policy>& around) const {
  LossOfBatch result = *this;
  if (has_regions_ || loss_ == nullptr) return result;
  // A part of the network that is called directly would not see the network's setting.
  const std::optional<Policy> own = policy_of(net);
  const auto wrapped = [policy =
                            own.has_value() ? own : around](const Function& function) -> Function {
    if (function == nullptr) return nullptr;
    return [function, policy](Batch& batch) {
      const ModuleRegion region(policy);
      return function(batch);
    };
  };
  result.loss_ = wrapped(loss_);
  result.sum_ = wrapped(sum_);
  result.has_regions_ = true;
  return result;
}

Tensor LossOfBatch::operator()(Batch& batch) const { return loss_(batch); }

Tensor LossOfBatch::count(const Batch& batch) const {
  if (count_ == nullptr || adds_up_) return {};
  const NoAutocast outside;  // it is computed like the loss
  const Tensor count = count_(batch);
  if (!count.defined()) return count;
  check_arg(count.numel() == 1, "loss", "the count of a batch has the shape ", count.shape(),
            ", but must be a scalar. Return its sum()");
  // 16-bit counts would be rounded from 257 on in bf16, and so would the loss that is
  // divided by them.
  return count.astype(DType::kF32);
}

BatchLoss LossOfBatch::of_batch(Batch& batch) const {
  const Tensor count = this->count(batch);
  if (count.defined()) return {.sum = sum_(batch).item(), .count = count.item()};
  const auto examples = static_cast<double>(batch.size());
  const double loss = loss_(batch).item();
  // In double the product of an f32 loss is exact, so that value() returns the loss exactly.
  return {.sum = adds_up_ ? loss : loss * examples, .count = examples, .adds_up = adds_up_};
}

}  // namespace mezzo::amp
