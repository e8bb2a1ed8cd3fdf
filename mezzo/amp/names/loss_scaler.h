// MindSpore's loss scalers: manual scaling, for training loops written as functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/amp/loss_scale.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::amp {

// True if no element of any tensor is infinite or NaN. Exact: finite elements are reported as
// finite even if their sum is not. One pass over memory; undefined tensors are skipped. Throws
// ArgumentError for tensors that are not f32 or in 16 bits, or not dense.
using mezzo::all_finite;

// Multiplies losses and divides gradients by a scale. Results are f32 whatever the input dtype: in
// a narrow range the scale itself would be infinite from 2^16 on, and gradients zero from 2^25 on.
//
//   DynamicLossScaler scaler(1024, 2, 50);
//   scaler.scale(loss).backward();
//   const bool finite = all_finite(grads);
//   if (finite) update(scaler.unscale(grads));
//   scaler.adjust(finite);
class LossScaler {
 public:
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;
  virtual ~LossScaler() = default;

  double scale_value() const { return state_.scale(); }

  // Return new tensors; differentiable. Undefined ones stay undefined.
  Tensor scale(const Tensor& tensor) const;
  std::vector<Tensor> scale(std::span<const Tensor> tensors) const;
  Tensor unscale(const Tensor& tensor) const;
  std::vector<Tensor> unscale(std::span<const Tensor> tensors) const;

  // Ends a step: adapts the scale, depending on whether gradients were finite. True if this scaler
  // adapts.
  virtual bool adjust(bool grads_finite) = 0;

 protected:
  explicit LossScaler(const LossScaleOptions& options) : state_(options) {}
  LossScaleState& state() { return state_; }
  const LossScaleState& state() const { return state_; }

 private:
  LossScaleState state_;
};

// A fixed scale. Throws ArgumentError unless it is at least 1.
class StaticLossScaler final : public LossScaler {
 public:
  explicit StaticLossScaler(double scale_value);

  bool adjust(bool grads_finite) override;
};

// After scale_window steps with finite gradients the scale is multiplied by scale_factor. After a
// step with other gradients it is divided by it, but never below 1. The scale stays where
// multiplying would overflow f32. Throws ArgumentError unless scale_value is at least 1,
// scale_factor at least 2 and scale_window at least 1.
class DynamicLossScaler final : public LossScaler {
 public:
  DynamicLossScaler(double scale_value, std::int64_t scale_factor, std::int64_t scale_window);

  bool adjust(bool grads_finite) override;

  // Steps with finite gradients since the last change, like MindSpore's `counter`.
  std::int64_t counter() const { return state().growth_tracker(); }
  // Restores saved values. Throws ArgumentError for values that cannot have been saved.
  void restore(double scale_value, std::int64_t counter);
};

}  // namespace mezzo::amp
