// GradScaler: loss scaling with PyTorch's names.
#pragma once

#include <optional>
#include <vector>

#include "mezzo/amp/loss_scale.h"
#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

// What step() did with one optimizer.
struct StepResult {
  bool stepped = true;
  bool found_inf = false;
  std::optional<std::size_t> first_bad;  // index of the first parameter with a non-finite gradient
};

// Scales the loss so that small gradients survive f16, unscales the gradients, skips steps with
// non-finite ones, and adapts the scale.
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // unscales, and skips the step if a gradient is not finite
//   scaler.update();
//   optimizer.zero_grad();
//
// A disabled scaler passes everything through: bf16 has f32's range and needs none.
class GradScaler {
 public:
  explicit GradScaler(const LossScaleOptions& options = {}, bool enabled = true);

  // loss * scale, in f32: the scaled loss of a 16-bit loss would overflow.
  Tensor scale(const Tensor& loss);

  // Divides the gradients by the scale of this iteration and checks them; for work on true
  // gradients, such as clipping, before step(). Throws ArgumentError if called twice for an
  // optimizer since the last update(), or after its step().
  void unscale_(optim::Optimizer& optimizer);  // NOLINT(readability-identifier-naming): PyTorch's

  // Steps the optimizer if all gradients are finite. Unless unscale_() did it, the division by the
  // scale happens inside the optimizer's pass, and the gradients themselves stay scaled. Throws
  // ArgumentError if called twice for an optimizer since the last update().
  StepResult step(optim::Optimizer& optimizer);

  // Ends the iteration: the scale shrinks if any optimizer met a non-finite gradient, and grows
  // after growth_interval iterations without. Throws ArgumentError if nothing was unscaled or
  // stepped.
  void update();
  // Sets the scale instead; the count towards growth is left as it is.
  void update(double new_scale);

  double get_scale() const { return enabled_ ? state_.scale() : 1; }
  bool is_enabled() const { return enabled_; }
  const LossScaleState& state() const { return state_; }
  LossScaleState& state() { return state_; }

 private:
  enum class Stage : std::uint8_t { kUnscaled, kStepped };
  struct Entry {
    const optim::Optimizer* optimizer;
    Stage stage;
    std::optional<std::size_t> first_bad;
  };

  Entry* find(const optim::Optimizer& optimizer);
  Entry& add_entry(const optim::Optimizer& optimizer, Stage stage,
                   std::optional<std::size_t> first_bad);
  void check_scaled() const;
  double inverse_scale() const { return 1.0 / state_.scale(); }

  LossScaleState state_;
  bool enabled_;
  bool scaled_ = false;  // scale() was called in this iteration
  std::vector<Entry> entries_;
};

}  // namespace mezzo::amp
