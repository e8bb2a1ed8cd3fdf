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

#include "mezzo/amp/loss_scale.h"
#include "mezzo/amp/update_on_device.h"
#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

class GradientStatistics;
class GradManager;       // names/grad_manager.h
class LossScaleManager;  // names/loss_scale_manager.h

// The result of step() for one optimizer.
struct StepResult {
  bool stepped = true;
  bool found_inf = false;      // one of its gradients is not finite
  bool nothing_to_do = false;  // none of its parameters has a gradient
  double scale_used = 1;       // the scale that its gradients carried
  // The number of consecutive skipped iterations, including this one; 0 if it was not skipped.
  std::int64_t skipped_in_a_row = 0;
  std::optional<std::size_t> first_bad;  // index of the first parameter with a non-finite gradient
};

// Scales the loss so that small gradients survive a narrow range, unscales the gradients, skips
// steps with non-finite ones, and adapts the scale.
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // unscales, and skips the step if a gradient is not finite
//   scaler.update();
//   optimizer.zero_grad();
//
// An iteration begins with its first scale() and ends with update(). It uses the scale of that
// first call throughout, even if another one is set in between. So several losses and micro-batches
// are scaled alike, and gradients are divided by the factor that they were multiplied with.
//
// A disabled scaler passes everything through: bf16 has f32's range and needs none.
class GradScaler {
 public:
  // Throws ArgumentError for options that LossScaleState does not accept. The options of a disabled
  // scaler are not checked.
  explicit GradScaler(const LossScaleOptions& options = {}, bool enabled = true);
  // Uses the manager's scale; disabled if the manager does not scale. If the manager does not drop
  // overflowing updates, gradients are unscaled but not checked, and no step is skipped.
  explicit GradScaler(const LossScaleManager& manager);
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;
  ~GradScaler() = default;

  // loss * scale, in f32, because scaling a 16-bit loss would overflow. If the loss was computed in
  // a narrow range, its gradient, which is the scale, is a number of that range, too: the scale
  // then has to stay under 2^16. Compute losses in f32, as regions and training steps do.
  Tensor scale(const Tensor& loss);
  std::vector<Tensor> scale(std::span<const Tensor> losses);

  // Divides the gradients by the scale of this iteration and checks them. For work on true
  // gradients, such as clipping, before step(). Throws ArgumentError if called twice for an
  // optimizer since the last update(), after its step(), or before scale(), and for 16-bit
  // gradients of f32 parameters; nothing has changed then. 16-bit gradients of 16-bit parameters
  // become f32 first.
  void unscale_(optim::Optimizer& optimizer);  // NOLINT(readability-identifier-naming): PyTorch's

  // Steps the optimizer if all its gradients are finite, whatever was found for other optimizers.
  // Unless unscale_() was called, the division by the scale happens inside the optimizer's pass,
  // and the gradients themselves stay scaled (with a scale below 1 they are divided before they are
  // checked). If there are no gradients, it does nothing and the result says so. Throws
  // ArgumentError if called twice for an optimizer since the last update(), and before scale().
  StepResult step(optim::Optimizer& optimizer);
  // Like step(), for several optimizers that all step or, if one has a non-finite gradient, all
  // skip: the players of a game must stay in step. Returns one result for each.
  std::vector<StepResult> step_together(std::span<optim::Optimizer* const> optimizers);

  // Updates that need no host in between (update_on_device.h) -------------------------------------
  // For a captured step whose parts are recorded: notes unscale_() and clipping, if they are
  // wanted, and step_together() as work that a recording can hold. `prepared`, if given, is called
  // in every run before the work is queued or launched; afterwards `tell` gets the results. Returns
  // false and notes nothing elsewhere, or if the work needs the host.
  using TellResults = std::function<void(const std::vector<StepResult>& results,
                                         const UpdateOnDevice::Outcome& outcome)>;
  bool queue_steps(const std::vector<UpdateOnDevice::Player>& players, const TellResults& tell,
                   const std::function<void()>& prepared = {});
  // The parts of such an update. begin_steps() returns what UpdateOnDevice::prepare() needs, and
  // throws what step() throws. end_steps() returns the results, once it is known what was found.
  std::vector<UpdateOnDevice::Carried> begin_steps(std::span<const UpdateOnDevice::Player> players);
  std::vector<StepResult> end_steps(std::span<const UpdateOnDevice::Player> players,
                                    const std::vector<bool>& has_gradients,
                                    const UpdateOnDevice::Outcome& outcome);

  // Ends the iteration. The scale shrinks if any optimizer had a non-finite gradient, and grows
  // after growth_interval iterations without. If there were no gradients at all, it stays. Warns
  // once of a floor that is too high or of many skipped steps (loss_scale.h). Throws ArgumentError
  // if nothing was unscaled or stepped.
  void update();
  // Ends the iteration and sets the scale. Skips are counted; the count towards growth stays.
  // Throws ArgumentError between scale() and the first step() or unscale_(), because the gradients
  // of this iteration carry another scale.
  void update(double new_scale);
  // Ends the iteration without any effect, for gradients that will not be used.
  void discard();
  // Begins an iteration that will be discarded, at the scale of an earlier one.
  void begin_again(double scale);

  // MegEngine's names ----------------------------------------------------------------------------
  // Divides the gradients of the tensors themselves and checks them. If one is not finite, all of
  // them are dropped, so that an optimizer has nothing to do, and the index of the first bad one is
  // returned. Uses the current scale if scale() was not called. Throws ArgumentError for tensors
  // that were unscaled since the last update(), and like unscale_().
  std::optional<std::size_t> unscale(std::span<const Tensor> tensors);
  // Scales the loss, calls the manager's backward(), unscales the gradients of attached tensors and
  // ends the iteration; optimizers step by themselves afterwards. With unscale_grad = false it only
  // adds scaled gradients, for all micro-batches but the last. With update_scale = false the
  // iteration continues, for other managers, until update(). Returns what unscale() returns.
  std::optional<std::size_t> backward(GradManager& manager, const Tensor& loss,
                                      const Tensor& dy = Tensor(), bool unscale_grad = true,
                                      std::optional<bool> update_scale = std::nullopt);
  std::optional<std::size_t> backward(GradManager& manager, std::span<const Tensor> losses,
                                      std::span<const Tensor> dys = {}, bool unscale_grad = true,
                                      std::optional<bool> update_scale = std::nullopt);
  double scale_factor() const { return get_scale(); }

  // Shows the true gradients of every iteration to `statistics` when they are checked; a disabled
  // scaler, which does not check, shows them in unscale_() and step(). Null for none; otherwise it
  // must outlive the scaler's use.
  void set_statistics(GradientStatistics* statistics) { statistics_ = statistics; }
  const GradientStatistics* statistics() const { return statistics_; }
  // Shows them these gradients, which carry the scale, now, if they are counted in this iteration.
  void count_gradients(std::span<const Tensor> params) const;

  // The properties of the next iteration that are fixed in a captured step, as bits.
  static constexpr std::uint64_t kScales = 1, kChecks = 2, kCounts = 4, kAllModes = 7;
  std::uint64_t mode() const;

  // The state -------------------------------------------------------------------------------------
  bool is_enabled() const { return enabled_; }
  // False if no step is ever skipped: the scaler is disabled, or only unscales.
  bool checks_gradients() const { return enabled_ && checks_; }
  // The scale of the next iteration; 1 if disabled.
  double get_scale() const { return enabled_ ? state_->scale() : 1; }
  // The scale of the current iteration, or of the next one if none is in progress.
  double scale_used() const { return used_.value_or(get_scale()); }
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  double get_growth_factor() const { return state_->options().growth_factor; }
  void set_growth_factor(double factor) { state_->set_growth_factor(factor); }
  double get_backoff_factor() const { return state_->options().backoff_factor; }
  void set_backoff_factor(double factor) { state_->set_backoff_factor(factor); }
  std::int64_t get_growth_interval() const { return state_->options().growth_interval; }
  // Throws ArgumentError for an interval other than 0 if gradients are not checked.
  void set_growth_interval(std::int64_t interval);

  // Changes of the state apply from the next iteration on.
  const LossScaleState& state() const { return *state_; }
  LossScaleState& state() { return *state_; }

  // PyTorch's keys `scale`, `growth_factor`, `backoff_factor`, `growth_interval` and
  // `_growth_tracker`, and `_hysteresis_left` and `_skipped_in_a_row`; empty if disabled.
  using StateDict = std::vector<std::pair<std::string, double>>;
  StateDict state_dict() const;
  // Restores a saved state; `_hysteresis_left` and `_skipped_in_a_row`, which PyTorch does not
  // write, may be missing. Does nothing if disabled. Throws ArgumentError, and changes nothing, for
  // an empty state, one with missing, unknown or impossible entries, one that grows if gradients
  // are not checked, and between scale() and update().
  void load_state_dict(const StateDict& state);

 private:
  enum class Stage : std::uint8_t { kUnscaled, kStepped };
  struct Entry {
    const optim::Optimizer* optimizer;
    Stage stage;
    bool has_gradients;
    double inv_scale;  // remaining factor of the gradients
    std::optional<std::size_t> first_bad;

    bool steps(bool skip) const { return has_gradients && !skip; }
  };

  // What was found about the iteration's gradients.
  struct Found {
    bool checked = false;  // they were checked, and there may have been none
    bool gradients = false;
    bool overflow = false;
  };

  // The only check of gradients: the index of the first parameter with a gradient that is not
  // finite after multiplication by `factor`. With a factor of 1 nothing is written.
  std::optional<std::size_t> check_gradients(std::span<const Tensor> params, double factor) const;

  Tensor scale_captured(const Tensor& loss);
  Entry* find(const optim::Optimizer& optimizer);
  // The optimizer's entry, ready to step: its gradients are checked now if they were not before.
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
  bool checks_ = true;          // whether gradients are checked for being finite
  std::optional<double> used_;  // the scale of this iteration, from its first scale()
  Tensor factor_;               // the same as a tensor, for captured steps
  std::vector<Entry> entries_;
  std::vector<const TensorImpl*> unscaled_;  // tensors that unscale() has handled
  Found tensors_;                            // result of unscale()
  std::int64_t skipped_in_a_row_ = 0;
  GradientStatistics* statistics_ = nullptr;
};

}  // namespace mezzo::amp
