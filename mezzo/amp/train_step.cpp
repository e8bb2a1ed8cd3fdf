#include "mezzo/amp/train_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/observed_calls.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/distributed/average.h"
#include "mezzo/distributed/wire.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/keep_buffers.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/optim/sharded.h"

namespace mezzo::amp {
namespace {

// Whether the step reads its losses after the backward pass. Reading one waits for a device, which
// would run out of work, and would split a recorded step in two. A step that is skipped then has
// run its backward pass in vain, which happens rarely.
bool looks_late(const Tensor& loss) { return captures_for_recording() || !loss.device().is_cpu(); }

// Whether the network is known to compute in bf16, and no part of it in f16.
bool is_in_bf16(nn::Module& net, const std::optional<Policy>& around) {
  const std::optional<Policy> own = policy_of(net);
  const std::optional<Policy>& policy = own.has_value() ? own : around;
  bool has_narrow = false;
  net.apply([&](nn::Module& module) {
    const std::optional<Policy> of_part = policy_of(module);
    has_narrow = has_narrow || (of_part.has_value() && has_narrow_range(of_part->dtype()));
  });
  return policy.has_value() && policy->dtype() == DType::kBf16 && !has_narrow;
}

void check_split(const Batch& batch, std::int64_t parts) {
  batch.check_rows();
  check_arg(batch.size() >= parts, "train_step", "cannot split a batch of ", batch.size(),
            " examples into ", parts, " micro-batches. Use fewer");
}

// A group of one process exchanges nothing; without it an update can be recorded or done in parts.
TrainStepOptions without_group_of_one(TrainStepOptions options) {
  if (distributed::process_count(options.processes) == 1) options.processes = nullptr;
  return options;
}

}  // namespace

void check_step_options(const TrainStepOptions& options) {
  check_arg(options.micro_batches >= 1, "train_step",
            "micro_batches must be at least 1: ", options.micro_batches);
  check_arg(options.max_grad_norm.value_or(1) > 0, "train_step",
            "max_grad_norm must be positive: ", options.max_grad_norm.value_or(1));
  check_arg(distributed::can_be_exchanged(options.reduce_dtype), "train_step",
            "processes cannot exchange gradients in ", options.reduce_dtype, ". Use ",
            distributed::kWireDTypes);
}

const char* name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::kForward: return "forward";
    case StepPhase::kBackward: return "backward";
    case StepPhase::kUpdate: return "update";
  }
  return "";
}

TrainStep::TrainStep(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
                     GradScaler scaler, TrainStepOptions options)
    : TrainStep(net, LossOfBatch::of(std::move(loss), net, options.policy), optimizer,
                std::move(scaler), options) {}

TrainStep::TrainStep(nn::Module& net, const LossOfBatch& loss, optim::Optimizer& optimizer,
                     GradScaler scaler, TrainStepOptions options)
    : net_(net),
      optimizer_(optimizer),
      scaler_(std::move(scaler)),
      options_(without_group_of_one(std::move(options))),
      loss_(loss.with_regions(net, options_.policy), options_.processes) {
  check_arg(loss_.loss() != nullptr, "train_step", "the loss function is null. Give one");
  check_step_options(options_);
  if (options_.shard_optimizer && options_.processes != nullptr) {
    optimizer_.shard(optim::shard_of(*options_.processes));
  }
  check_arg(!is_sharded() || (options_.processes != nullptr &&
                              optimizer_.shard() == optim::shard_of(*options_.processes)),
            "train_step", "the optimizer is part ", optimizer_.shard().part, " of ",
            optimizer_.shard().parts,
            ", and this step is not one of as many processes. Give it "
            "the same group, or another optimizer");
  if (scaler_.is_enabled() && is_in_bf16(net_, options_.policy)) {
    logging::warn_once(
        "bf16 has the range of f32: its gradients do not underflow, so loss scaling only costs the "
        "overflow check. Leave it out");
  }
}

// With an optimizer of other parameters nothing would be trained, and every step would report
// success.
void TrainStep::check_optimizer() const {
  std::unordered_set<const TensorImpl*> own;
  for (const Tensor& parameter : net_.parameters()) {
    if (parameter.requires_grad()) own.insert(parameter.impl());
  }
  const auto shared = std::ranges::count_if(
      optimizer_.whole_params(), [&](const Tensor& param) { return own.contains(param.impl()); });
  check_arg(!optimizer_.params().empty(), "train_step",
            "the optimizer holds no parameters, and the network has ", own.size(),
            ". Make it from the network's parameters(), which are those of modules that were "
            "passed to add()");
  if (own.empty()) return;
  constexpr const char* kAdvice =
      "Make it from this network's parameters(), after half_parameters()";
  check_arg(shared > 0, "train_step", "the optimizer holds none of the network's ", own.size(),
            " parameters. ", kAdvice);
  // A part of a network may be trained, and an optimizer may hold more than one network. Both
  // together are probably a mistake.
  const auto others = static_cast<std::int64_t>(optimizer_.params().size()) - shared;
  const auto left_out = static_cast<std::int64_t>(own.size()) - shared;
  if (others > 0 && left_out > 0) {
    logging::warn_once(concat("[train_step] the optimizer holds ", others,
                              " parameters that are not the network's, and ", left_out,
                              " of the network's it does not. ", kAdvice));
  }
}

TrainStepResult TrainStep::operator()(const Tensor& input, const Tensor& labels) {
  return (*this)(Batch{.inputs = {input}, .labels = {labels}});
}

TrainStepResult TrainStep::operator()(const Batch& batch) {
  if (!std::exchange(has_begun_, true)) {
    check_optimizer();
    if (options_.processes != nullptr) begin_together();
  }
  drop_gradients();
  result_ = {.scale = scaler_.get_scale()};
  if (options_.statistics != nullptr) {
    scaler_.set_statistics(options_.statistics);  // another scaler may have replaced it
    options_.statistics->begin_step(result_.scale);
  }
  const RandomPosition start = default_generator().position();
  begin_observers(batch);
  buffers_.begin();
  phase_ = StepPhase::kForward;
  phase_begin_ = std::chrono::steady_clock::now();
  try {
    ObservedCalls observed(observing_);
    execute(batch);
    observed.end();
  } catch (...) {
    if (exchange_ != nullptr) exchange_->abandon();
    buffers_.restore();
    drop_gradients();
    scaler_.discard();
    throw;
  }
  if (options_.processes != nullptr) {
    // Also of a skipped step: the histories of all processes stay the same.
    if (const auto scales = scale_histories()) scales->share(*options_.processes);
  }
  if (result_.skipped) replay(batch, start);
  result_.next_scale = scaler_.get_scale();
  for (StepObserver* observer : observing_) observer->end_step(result_);
  return std::move(result_);
}

void TrainStep::begin_observers(const Batch& batch) {
  observing_ = options_.observers;
  std::erase_if(observing_,
                [&](StepObserver* observer) { return !observer->begin_step(result_.scale); });
  for (StepObserver* observer : observing_) observer->begin_calls(batch);
}

void TrainStep::execute(const Batch& batch) {
  if (!execution_) return run(batch);
  const StepMode now = mode(batch);
  const auto body = [this, &now](std::span<const Tensor> tensors) {
    run(batch_of(now.layout, tensors));
  };
  execution_(body, now, tensors_of(batch));
}

// Also drops those of parameters that the optimizer does not hold: they carry this step's scale,
// and would be added to the gradients of another optimizer's step.
void TrainStep::drop_gradients() const {
  optimizer_.zero_grad();
  net_.zero_grad();
}

StepMode TrainStep::mode(const Batch& batch) const {
  return {.step = this,
          .scaling = scaler_.mode(),
          .params = optimizer_.params().size(),
          .layout = layout_of(batch),
          .shows_gradients = shows_gradients()};
}

void TrainStep::run(const Batch& batch) {
  losses_ = {};
  nn::Module* const nets[] = {&net_};
  if (options_.restore_buffers && may_skip()) buffers_.take(nets);
  optim::GradientExchange* const exchange = begin_exchange();
  if (!accumulate_all(batch, exchange)) return;
  if (exchange != nullptr) exchange->finish(scale_note());
  const bool needs_host = this->needs_host();
  if (needs_host && !take_losses()) return;
  if (shows_gradients()) show_gradients();
  // In a recording the update is one piece with the work before it.
  const bool is_one = captures_for_recording() && !needs_host;
  if (!is_one || options_.on_phase) begin(StepPhase::kUpdate);
  if (updates_by_leaf()) {
    note_update_by_leaf();
  } else if (needs_host) {
    do_host_work("update", {}, optimizer_.whole_params(), [this](std::span<const Tensor>) {
      buffers_.complete();
      is_sharded() ? update_sharded() : update();
      end_phase();
      return true;
    });
  } else {
    queue_update();
  }
  drop_gradients();
}

bool TrainStep::accumulate_all(const Batch& batch, LeafListener* listener) {
  const std::int64_t parts = options_.micro_batches;
  if (parts > 1) check_split(batch, parts);
  const LossParts::Whole whole = loss_.begin(batch, parts);
  // Scales are those of the step, not of its parts, nor of each network that a loss calls.
  const std::shared_ptr<ScaleHistories> scales = scale_histories();
  if (scales != nullptr) scales->begin_forward(true);
  const HoldScales one_step(scales);
  if (parts == 1) return accumulate(batch, whole, 1, listener);
  const std::int64_t n = batch.size();
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t start = i * n / parts;
    const std::int64_t end = (i + 1) * n / parts;
    const double share = static_cast<double>(end - start) / static_cast<double>(n);
    LeafListener* const of_part = i + 1 == parts ? listener : nullptr;
    if (!accumulate(batch.slice(start, end), whole, share, of_part)) return false;
  }
  return true;
}

// `listener`: hears of the gradients that are complete, for which this must be the last part.
bool TrainStep::accumulate(const Batch& part, const LossParts::Whole& whole, double share,
                           LeafListener* listener) {
  begin(StepPhase::kForward);
  const auto [loss, weight] = loss_.part_of(part, whole, share);
  const NoAutocast outside;
  // Detached, because a loss that is read late would keep its tape until then.
  losses_.tensors.push_back(loss.detach());
  losses_.weights.push_back(weight);
  if (!looks_late(loss) && !take_losses()) return false;
  begin(StepPhase::kBackward);
  const ListenToLeaves listening(listener);
  scaler_.scale(weight == 1 ? loss : loss * weight).backward();
  return true;
}

void TrainStep::try_forward(const Tensor& input, const Tensor& labels) {
  try_forward(Batch{.inputs = {input}, .labels = {labels}});
}

void TrainStep::try_forward(const Batch& batch) {
  const nn::KeepBuffers buffers(net_);
  const nn::Inference inference(net_);
  const KeepRandomPosition random;
  static_cast<void>(loss_.part_of(batch, {}, 1));
}

// Reads the losses that were not read yet.
bool TrainStep::take_losses() {
  const Losses losses = std::exchange(losses_, {});
  if (losses.tensors.empty()) return true;
  const auto look = [this, weights = losses.weights](std::span<const Tensor> reads) {
    buffers_.complete();
    for (std::size_t i = 0; i < reads.size(); ++i) add_loss(mean_loss(reads[i]), weights[i]);
    return goes_on();
  };
  return do_host_work("take_loss", losses.tensors, {}, look);
}

// Over the processes: if one loss is not finite, the mean is not, and all skip the step.
double TrainStep::mean_loss(const Tensor& loss) const {
  const double own = loss.item();
  return options_.processes != nullptr ? distributed::average(*options_.processes, own) : own;
}

void TrainStep::add_loss(double loss, double weight) {
  result_.loss += weight * loss;
  result_.nonfinite_loss |= !std::isfinite(loss);
}

bool TrainStep::goes_on() {
  if (!result_.nonfinite_loss || !skips_nonfinite_loss()) return true;
  end_phase();
  skip();
  return false;
}

void TrainStep::begin(StepPhase phase) {
  const auto mark = [this, phase](std::span<const Tensor>) { return enter(phase), true; };
  // Measuring times alone is not worth a separate recording for each part. Outside of recordings
  // nothing is deferred.
  const bool can_wait =
      !captures_for_recording() || (!options_.on_phase && phase != StepPhase::kUpdate);
  do_host_work(name_of(phase), {}, {}, mark,
               can_wait ? HostWorkTime::kCanWait : HostWorkTime::kInPlace);
}

void TrainStep::enter(StepPhase phase) {
  end_phase();
  phase_ = phase;
  if (options_.on_phase) options_.on_phase(phase);
}

// Adds the time since the beginning of the current phase to its total.
void TrainStep::end_phase() {
  const auto now = std::chrono::steady_clock::now();
  const double ms = std::chrono::duration<double, std::milli>(now - phase_begin_).count();
  switch (phase_) {
    case StepPhase::kForward: result_.forward_ms += ms; break;
    case StepPhase::kBackward: result_.backward_ms += ms; break;
    case StepPhase::kUpdate: result_.update_ms += ms; break;
  }
  phase_begin_ = now;
}

void TrainStep::count_skip() {
  skipped_in_a_row_ = result_.skipped ? skipped_in_a_row_ + 1 : 0;
  result_.skipped_in_a_row = skipped_in_a_row_;
}

// If all of them were overflows, the scaler has warned already.
void TrainStep::warn_if_many() const {
  if (skipped_in_a_row_ != kManySkips || scaler_.skipped_in_a_row() == kManySkips) return;
  warn_of_skips(skipped_in_a_row_, scaler_.get_scale(),
                result_.nonfinite_loss
                    ? concat("the last loss is ", result_.loss)
                    : concat("the gradient of ", result_.first_bad, " is not finite"));
}

void TrainStep::skip() {
  result_.skipped = true;
  count_skip();
  drop_gradients();
  scaler_.discard();
  buffers_.restore();
  logging::write(logging::Topic::kAmp, "step skipped: its loss is ", result_.loss,
                 ". The scale stays at ", scaler_.get_scale(),
                 ", because no other scale would help");
  warn_if_many();
}

void TrainStep::set_skipped_in_a_row(std::int64_t steps) {
  check_arg(steps >= 0, "train_step",
            "the number of steps skipped in a row must not be negative: ", steps);
  skipped_in_a_row_ = steps;
}

std::string TrainStep::name_of_parameter(std::size_t i) const {
  const Tensor& param = optimizer_.whole_params()[i];
  for (const NamedTensor& entry : net_.named_parameters()) {
    if (entry.tensor.impl() == param.impl()) return entry.name;
  }
  return concat("parameter ", i, " of the optimizer");
}

}  // namespace mezzo::amp
