// MindSpore's loss-scale managers: a loss scale as an object that is passed to a training step.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/amp/loss_scale.h"

namespace mezzo::amp {

// A handle to a loss scale. Copies share it: a step that was given a manager changes the scale that
// the caller's manager shows.
class LossScaleManager {
 public:
  // No loss scaling: the scale is always 1.
  LossScaleManager() = default;
  // Any of the rules of LossScaleOptions. Without drop_overflow_update gradients are not checked
  // and no step is skipped. Throws ArgumentError for invalid options, such as a scale that grows
  // (growth_interval) without the check that stops it.
  explicit LossScaleManager(const LossScaleOptions& options, bool drop_overflow_update = true);

  // False for a default-constructed manager.
  bool scales() const { return state_ != nullptr; }
  double get_loss_scale() const { return state_ != nullptr ? state_->scale() : 1; }
  // Records one step, with or without overflow.
  void update_loss_scale(bool overflow);
  // Whether a step with non-finite gradients is to be skipped.
  bool get_drop_overflow_update() const { return drop_overflow_update_; }
  // The state of the scale; null without scaling.
  const std::shared_ptr<LossScaleState>& state() const { return state_; }

 private:
  std::shared_ptr<LossScaleState> state_;
  bool drop_overflow_update_ = false;
};

// A fixed scale. Throws ArgumentError unless it is at least 1.
//
// With drop_overflow_update = false nothing is checked and nothing skipped, but gradients are still
// unscaled. In MindSpore they are not: there the optimizer must be given the same loss_scale, and
// forgetting that multiplies the learning rate by it.
class FixedLossScaleManager : public LossScaleManager {
 public:
  explicit FixedLossScaleManager(double loss_scale = 128, bool drop_overflow_update = true);
};

// A scale that is multiplied by scale_factor after scale_window steps without overflow, and divided
// by it after each overflow, but never below 1. Throws ArgumentError unless init_loss_scale is at
// least 1, scale_factor at least 2 and scale_window at least 1.
class DynamicLossScaleManager : public LossScaleManager {
 public:
  explicit DynamicLossScaleManager(double init_loss_scale = 0x1p24, std::int64_t scale_factor = 2,
                                   std::int64_t scale_window = 2000);
};

// The rules of MindSpore's dynamic scaling, with its errors; messages begin with `op`.
LossScaleOptions mindspore_options(const char* op, double scale, std::int64_t scale_factor,
                                   std::int64_t scale_window);

}  // namespace mezzo::amp
