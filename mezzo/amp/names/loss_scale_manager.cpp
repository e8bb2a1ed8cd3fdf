#include "mezzo/amp/names/loss_scale_manager.h"

#include "mezzo/core/error.h"

namespace mezzo::amp {
namespace {

double checked_scale(const char* op, double scale) {
  check_arg(scale >= 1 && scale <= kNoCeiling, op,
            "the scale must be at least 1 and finite: ", scale);
  return scale;
}

}  // namespace

LossScaleManager::LossScaleManager(const LossScaleOptions& options, bool drop_overflow_update)
    : state_(std::make_shared<LossScaleState>(options)),
      drop_overflow_update_(drop_overflow_update) {
  if (!drop_overflow_update) check_unchecked_growth("LossScaleManager", options.growth_interval);
}

void LossScaleManager::update_loss_scale(bool overflow) {
  if (state_ != nullptr) state_->update(overflow);
}

FixedLossScaleManager::FixedLossScaleManager(double loss_scale, bool drop_overflow_update)
    : LossScaleManager(fixed_loss_scale(checked_scale("FixedLossScaleManager", loss_scale)),
                       drop_overflow_update) {}

DynamicLossScaleManager::DynamicLossScaleManager(double init_loss_scale, std::int64_t scale_factor,
                                                 std::int64_t scale_window)
    : LossScaleManager(mindspore_options("DynamicLossScaleManager", init_loss_scale, scale_factor,
                                         scale_window)) {}

LossScaleOptions mindspore_options(const char* op, double scale, std::int64_t scale_factor,
                                   std::int64_t scale_window) {
  check_arg(scale_factor >= 2, op, "scale_factor must be an integer of at least 2: ", scale_factor,
            ". A scale that never changes is a static one");
  check_arg(scale_window >= 1, op, "scale_window must be at least 1: ", scale_window);
  return {.init_scale = checked_scale(op, scale),
          .growth_factor = static_cast<double>(scale_factor),
          .backoff_factor = 1 / static_cast<double>(scale_factor),
          .growth_interval = scale_window};
}

}  // namespace mezzo::amp
