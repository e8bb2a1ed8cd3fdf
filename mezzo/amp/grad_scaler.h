// GradScaler: loss scaling with PyTorch's names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/grad_manager.h"
#include "mezzo/amp/loss_scale.h"
#include "mezzo/amp/loss_scale_manager.h"
#include "mezzo/amp/update_on_device.h"
#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

class GradientStatistics;

// What step() did with one optimizer.
struct StepResult {
  bool stepped = true;
  bool found_inf = false;      // one of its gradients is not finite
  bool nothing_to_do = false;  // none of its parameters has a gradient
  double scale_used = 1;       // that its gradients carried
  // Iterations that were skipped up to and with this one; 0 if it was not.
  std::int64_t skipped_in_a_row = 0;
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
// An iteration begins with its first scale() and ends with update(). All of it works with the scale
// of that first call, whatever is set in between: several losses and micro-batches are scaled
// alike, and gradients are divided by what they were multiplied with.
//
// A disabled scaler passes everything through: bf16 has f32's range and needs none.
class GradScaler {
 public:
  // Throws ArgumentError for options that LossScaleState does not take. Of a disabled scaler they
  // say nothing and may be any.
  explicit GradScaler(const LossScaleOptions& options = {}, bool enabled = true);
  // Works on the manager's scale; disabled if the manager does not scale. If the manager does not
  // drop overflowing updates, gradients are unscaled and nothing is checked or skipped.
  explicit GradScaler(const LossScaleManager& manager);
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;
  ~GradScaler() = default;

  // loss * scale, in f32: the scaled loss of a 16-bit loss would overflow. Its gradient, which is
  // the scale, is an f16 number for a loss that was computed in f16: there the scale has to stay
  // under 2^16. Compute losses in f32, as regions and training steps do.
  Tensor scale(const Tensor& loss);
  std::vector<Tensor> scale(std::span<const Tensor> losses);

  // Divides the gradients by the scale of this iteration and checks them; for work on true
  // gradients, such as clipping, before step(). Throws ArgumentError if called twice for an
  // optimizer since the last update(), after its step(), before scale(), and for 16-bit gradients
  // of f32 parameters; those of 16-bit parameters become f32 first. Nothing has changed then.
  void unscale_(optim::Optimizer& optimizer);  // NOLINT(readability-identifier-naming): PyTorch's

  // Steps the optimizer if all its gradients are finite, whatever other optimizers met. Unless
  // unscale_() did it, the division by the scale happens inside the optimizer's pass, and the
  // gradients themselves stay scaled (those of a scale below 1 are divided before they are
  // checked). Without any gradient there is nothing to do, and the result says so. Throws
  // ArgumentError if called twice for an optimizer since the last update(), and before scale().
  StepResult step(optim::Optimizer& optimizer);
  // The same for several optimizers that step all or, if one met a non-finite gradient, none: the
  // players of a game must not get out of step. One result for each.
  std::vector<StepResult> step_together(std::span<optim::Optimizer* const> optimizers);

  // Updates that need no host in between (update_on_device.h) -------------------------------------
  // In a captured step whose parts are recorded: unscale_() and clipping as far as they are wanted,
  // and step_together(), as work that a recording can hold. `prepared`, if given, is called in
  // every run before that is queued or launched; behind it `tell` gets what came of it. False, and
  // nothing is noted, elsewhere, and if the host is needed for it.
  using TellResults = std::function<void(const std::vector<StepResult>& results,
                                         const UpdateOnDevice::Outcome& outcome)>;
  bool queue_steps(const std::vector<UpdateOnDevice::Player>& players, const TellResults& tell,
                   const std::function<void()>& prepared = {});
  // The parts of that: what UpdateOnDevice::prepare() needs, which throws what step() throws;
  // and the results, once it is known what was found.
  std::vector<UpdateOnDevice::Carried> begin_steps(std::span<const UpdateOnDevice::Player> players);
  std::vector<StepResult> end_steps(std::span<const UpdateOnDevice::Player> players,
                                    const std::vector<bool>& has_gradients,
                                    const UpdateOnDevice::Outcome& outcome);

  // Ends the iteration: the scale shrinks if any optimizer met a non-finite gradient, and grows
  // after growth_interval iterations without. It stays if there were no gradients at all. Warns
  // once of a floor that is too high or of many skipped steps (loss_scale.h). Throws ArgumentError
  // if nothing was unscaled or stepped.
  void update();
  // Ends the iteration with that scale; skips are counted, and the count towards growth is left as
  // it is. Throws ArgumentError between scale() and the first step() or unscale_(): the gradients
  // of this iteration carry another scale.
  void update(double new_scale);
  // Ends the iteration without a trace, for gradients that are not going to be used.
  void discard();

  // MegEngine's names ----------------------------------------------------------------------------
  // Divides the gradients of the tensors themselves and checks them. If one is not finite all of
  // them are dropped, so that an optimizer finds nothing to do, and the index of the first bad one
  // is returned. Takes the current scale if scale() was not called. Throws ArgumentError for
  // tensors that were unscaled since the last update(), and like unscale_().
  std::optional<std::size_t> unscale(std::span<const Tensor> tensors);
  // Scales loss, calls the manager's backward(), unscales what is attached to it and ends the
  // iteration; optimizers step by themselves afterwards. With unscale_grad = false it only adds
  // scaled gradients, for all micro-batches but the last. update_scale says otherwise of the end:
  // with false the iteration goes on, for other managers, up to an update(). Gives what unscale()
  // gives.
  std::optional<std::size_t> backward(GradManager& manager, const Tensor& loss,
                                      const Tensor& dy = Tensor(), bool unscale_grad = true,
                                      std::optional<bool> update_scale = std::nullopt);
  std::optional<std::size_t> backward(GradManager& manager, std::span<const Tensor> losses,
                                      std::span<const Tensor> dys = {}, bool unscale_grad = true,
                                      std::optional<bool> update_scale = std::nullopt);
  double scale_factor() const { return get_scale(); }

  // Shows the gradients of every iteration to the statistics, true ones, where they are checked;
  // a disabled scaler, which does not check, shows them in unscale_() and step(). Null for none,
  // else it must outlive the scaler's use.
  void set_statistics(GradientStatistics* statistics) { statistics_ = statistics; }
  const GradientStatistics* statistics() const { return statistics_; }

  // What the next iteration does that a captured step has for good, as bits.
  static constexpr std::uint64_t kScales = 1, kChecks = 2, kCounts = 4, kAllModes = 7;
  std::uint64_t mode() const;

  // The state -------------------------------------------------------------------------------------
  bool is_enabled() const { return enabled_; }
  // False if no step is ever skipped: disabled, or asked to unscale only.
  bool checks_gradients() const { return enabled_ && checks_; }
  // The scale of the next iteration; 1 if disabled.
  double get_scale() const { return enabled_ ? state_->scale() : 1; }
  // The scale of the iteration that is under way; the next one's if there is none.
  double scale_used() const { return used_.value_or(get_scale()); }
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  double get_growth_factor() const { return state_->options().growth_factor; }
  void set_growth_factor(double factor) { state_->set_growth_factor(factor); }
  double get_backoff_factor() const { return state_->options().backoff_factor; }
  void set_backoff_factor(double factor) { state_->set_backoff_factor(factor); }
  std::int64_t get_growth_interval() const { return state_->options().growth_interval; }
  // Throws ArgumentError for an interval other than 0 if gradients are not checked.
  void set_growth_interval(std::int64_t interval);

  // Changes of the state act from the next iteration on.
  const LossScaleState& state() const { return *state_; }
  LossScaleState& state() { return *state_; }

  // PyTorch's keys `scale`, `growth_factor`, `backoff_factor`, `growth_interval` and
  // `_growth_tracker`, and `_hysteresis_left` and `_skipped_in_a_row`; empty if disabled.
  using StateDict = std::vector<std::pair<std::string, double>>;
  StateDict state_dict() const;
  // Continues from a saved state; the last two, which PyTorch does not write, may be missing. Does
  // nothing if disabled. Throws ArgumentError, and changes nothing, for an empty state, one with
  // missing, unknown or impossible entries, one that grows if gradients are not checked, and
  // between scale() and update().
  void load_state_dict(const StateDict& state);

 private:
  enum class Stage : std::uint8_t { kUnscaled, kStepped };
  struct Entry {
    const optim::Optimizer* optimizer;
    Stage stage;
    bool has_gradients;
    double inv_scale;  // what is left to multiply the gradients with
    std::optional<std::size_t> first_bad;

    bool steps(bool skip) const { return has_gradients && !skip; }
  };

  // What the iteration's gradients were like.
  struct Found {
    bool checked = false;  // somebody looked, and there may have been none
    bool gradients = false;
    bool overflow = false;
  };

  // The only look at gradients: the index of the first parameter with one that is not finite, after
  // they were multiplied by `factor`. With a factor of 1 nothing is written.
  std::optional<std::size_t> check_gradients(std::span<const Tensor> params, double factor) const;

  Tensor scale_captured(const Tensor& loss);
  Entry* find(const optim::Optimizer& optimizer);
  // The optimizer's entry, ready to step: its gradients are checked now if they were not yet.
  Entry& checked(optim::Optimizer& optimizer);
  void check_scaled() const;
  void show_unscaled(std::span<const Tensor> params) const;
  void check_not_unscaled(std::span<const Tensor> tensors) const;
  static void check_not_unscaled(const Entry* entry);
  void check_not_stepped(const Entry* entry) const;
  StepResult settle(Entry& entry, bool skip) const;
  StepResult apply(optim::Optimizer& optimizer, Entry& entry, bool skip) const;
  bool has_checked() const;
  Found end_iteration();
  void count_skips(const Found& found);

  std::shared_ptr<LossScaleState> state_;
  bool enabled_;
  bool checks_ = true;          // gradients for being finite
  std::optional<double> used_;  // the scale of this iteration, from its first scale() on
  Tensor factor_;               // the same as a tensor, for captured steps
  std::vector<Entry> entries_;
  std::vector<const TensorImpl*> unscaled_;  // by unscale()
  Found tensors_;                            // by unscale()
  std::int64_t skipped_in_a_row_ = 0;
  GradientStatistics* statistics_ = nullptr;
};

// OneFlow's GradScaler: clamped between 1 and the largest f32. Throws ArgumentError unless
// backoff_factor is 1 / growth_factor.
GradScaler oneflow_grad_scaler(double init_scale = 65536, double growth_factor = 2,
                               double backoff_factor = 0.5, std::int64_t growth_interval = 2000);
// OneFlow's StaticGradScaler: the scale stays, and nothing is checked or skipped.
GradScaler static_grad_scaler(double scale_factor);

}  // namespace mezzo::amp
