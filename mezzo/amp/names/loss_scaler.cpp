#include "mezzo/amp/names/loss_scaler.h"

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/ops/arithmetic.h"

namespace mezzo::amp {
namespace {

// The scale is not subject to a surrounding region: in 16 bits it may be infinite or zero.
Tensor times(const Tensor& tensor, double factor) {
  const NoAutocast outside;
  return tensor.defined() ? tensor.astype(DType::kF32) * factor : tensor;
}

std::vector<Tensor> times(std::span<const Tensor> tensors, double factor) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(times(tensor, factor));
  return result;
}

LossScaleOptions static_options(double scale) {
  check_arg(scale >= 1, "StaticLossScaler", "scale_value must be at least 1: ", scale);
  return fixed_loss_scale(scale);
}

}  // namespace

Tensor LossScaler::scale(const Tensor& tensor) const { return times(tensor, scale_value()); }

std::vector<Tensor> LossScaler::scale(std::span<const Tensor> tensors) const {
  return times(tensors, scale_value());
}

Tensor LossScaler::unscale(const Tensor& tensor) const { return times(tensor, 1 / scale_value()); }

std::vector<Tensor> LossScaler::unscale(std::span<const Tensor> tensors) const {
  return times(tensors, 1 / scale_value());
}

StaticLossScaler::StaticLossScaler(double scale_value) : LossScaler(static_options(scale_value)) {}

bool StaticLossScaler::adjust(bool) { return false; }

DynamicLossScaler::DynamicLossScaler(double scale_value, std::int64_t scale_factor,
                                     std::int64_t scale_window)
    : LossScaler(mindspore_options("DynamicLossScaler", scale_value, scale_factor, scale_window)) {}

bool DynamicLossScaler::adjust(bool grads_finite) {
  state().update(!grads_finite);
  return true;
}

void DynamicLossScaler::restore(double scale_value, std::int64_t counter) {
  state().restore(scale_value, counter, state().options().hysteresis);
}

}  // namespace mezzo::amp
