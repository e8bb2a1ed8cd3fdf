#include "mezzo/amp/loss_function.h"

#include "mezzo/core/error.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {

Tensor LossFunction::count(const Tensor& labels) const {
  if (count_ == nullptr || adds_up_) return {};
  const Tensor count = count_(labels);
  if (!count.defined()) return count;
  check_arg(count.numel() == 1, "loss", "the count of the labels ", labels, " has the shape ",
            count.shape(), ", but must be a scalar. Return its sum()");
  // 16-bit counts would be rounded from 257 on in bf16, and so would the loss that is
  // divided by them.
  return count.astype(DType::kF32);
}

BatchLoss LossFunction::of_batch(const Tensor& output, const Tensor& labels) const {
  const Tensor count = this->count(labels);
  if (count.defined()) return {.sum = sum(output, labels).item(), .count = count.item()};
  const double examples = output.rank() > 0 ? static_cast<double>(output.size(0)) : 1;
  const double loss = loss_(output, labels).item();
  // In double the product of an f32 loss is exact, so that value() returns the loss exactly.
  return {.sum = adds_up_ ? loss : loss * examples, .count = examples, .adds_up = adds_up_};
}

CountedLoss::CountedLoss(LossFunction::Function sum, LossFunction::Count count,
                         std::optional<std::int64_t> ignore_index)
    : sum_(std::move(sum)), count_(std::move(count)), ignore_index_(ignore_index) {
  check_arg(sum_ != nullptr && count_ != nullptr, "loss",
            "the function of the sum or of the count is null. Give both");
}

Tensor CountedLoss::operator()(const Tensor& output, const Tensor& labels) const {
  const Tensor sum = sum_(output, labels);
  return sum / count_(labels).astype(sum.dtype());
}

SumLoss::SumLoss(LossFunction::Function sum) : sum_(std::move(sum)) {
  check_arg(sum_ != nullptr, "loss", "the function of the sum is null. Give one");
}

}  // namespace mezzo::amp
