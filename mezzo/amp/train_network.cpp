#include "mezzo/amp/train_network.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/log.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/capture_hook.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/gradients.h"

namespace mezzo::amp {
namespace {

bool is_flat(const Tensor& tensor) {
  return tensor.is_dense() || tensor.is_dense(Format::kChannelsLast);
}

// Both have the same shape, and the same format if `from` is flat.
void copy_bits(const Tensor& from, const Tensor& to) {
  if (is_flat(from) && is_flat(to)) {
    copy_bytes(to.address(), to.device(), from.address(), from.device(), from.bytes());
    to.bump_version();
  } else {
    copy_elements(from, to);
  }
}

void check_options(const TrainStepOptions& options) {
  check_arg(options.micro_batches >= 1, "train_step",
            "micro_batches must be at least 1: ", options.micro_batches);
  check_arg(options.max_grad_norm.value_or(1) > 0, "train_step",
            "max_grad_norm must be positive: ", options.max_grad_norm.value_or(1));
}

// Whether the step looks at its losses behind the backward pass. To read one waits for a device,
// which would run out of work, and cuts a recorded step in two. A step that is skipped then has
// done its backward pass for nothing, which happens rarely.
bool looks_late(const Tensor& loss) {
  return capture_hook() != nullptr || loss.device().type != DeviceType::kCpu;
}

// The dtype that the network computes in.
DType dtype_of(const nn::Module& net, const Policy& policy) {
  return policy_of(net).value_or(policy).dtype();
}

}  // namespace

const char* name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::kForward: return "forward";
    case StepPhase::kBackward: return "backward";
    case StepPhase::kUpdate: return "update";
  }
  return "";
}

Tensor forward(nn::Module& net, const Tensor& input, const Policy& policy) {
  const Autocast region(policy);
  return net(input).astype(DType::kF32);
}

void TrainOneStepWithLossScale::Snapshot::add(nn::Module& module) {
  for (const nn::Module::Member& member : module.own_buffers()) {
    const Tensor& buffer = *member.tensor;
    if (count_ == buffers_.size()) {
      buffers_.emplace_back();
      copies_.emplace_back();
    }
    Tensor& copy = copies_[count_];
    const bool fits = copy.defined() && copy.shape() == buffer.shape() &&
                      copy.dtype() == buffer.dtype() && copy.format() == buffer.format() &&
                      copy.device() == buffer.device();
    if (!fits) copy = empty(buffer.shape(), buffer.dtype(), buffer.format(), buffer.device());
    copy_bits(buffer, copy);
    buffers_[count_++] = buffer;
  }
  for (const nn::Module::Child& child : module.children()) add(*child.module);
}

void TrainOneStepWithLossScale::Snapshot::take(nn::Module& net) {
  count_ = 0;
  add(net);
}

void TrainOneStepWithLossScale::Snapshot::restore() const {
  for (std::size_t i = 0; i < count_; ++i) copy_bits(copies_[i], buffers_[i]);
}

TrainOneStepWithLossScale::TrainOneStepWithLossScale(nn::Module& net, LossFunction loss,
                                                     optim::Optimizer& optimizer, GradScaler scaler,
                                                     TrainStepOptions options)
    : net_(net),
      loss_(std::move(loss)),
      optimizer_(optimizer),
      scaler_(std::move(scaler)),
      options_(std::move(options)) {
  check_options(options_);
  scaler_.set_statistics(options_.statistics);
  if (scaler_.is_enabled() && dtype_of(net_, options_.policy) == DType::kBf16) {
    logging::warn_once(
        "bf16 has the range of f32: its gradients do not underflow, and the loss scaling that was "
        "asked for only costs its check. Leave it away");
  }
}

TrainStepResult TrainOneStepWithLossScale::operator()(const Tensor& input, const Tensor& labels) {
  result_ = {.scale = scaler_.get_scale()};
  if (options_.statistics != nullptr) options_.statistics->begin_step(result_.scale);
  const bool restores = options_.restore_buffers && may_skip();
  if (restores) snapshot_.take(net_);
  phase_ = StepPhase::kForward;
  phase_begin_ = std::chrono::steady_clock::now();
  try {
    execute(input, labels);
  } catch (...) {
    if (restores) snapshot_.restore();
    optimizer_.zero_grad();
    scaler_.discard();
    throw;
  }
  result_.next_scale = scaler_.get_scale();
  return std::move(result_);
}

void TrainOneStepWithLossScale::execute(const Tensor& input, const Tensor& labels) {
  const auto body = [this](const Tensor& x, const Tensor& y) { run(x, y); };
  if (execution_) {
    execution_(body, mode(), input, labels);
  } else {
    body(input, labels);
  }
}

// Host work remembers where this step is, and statistics watch gradients in some steps only.
std::uint64_t TrainOneStepWithLossScale::mode() const {
  const bool counts = options_.statistics != nullptr && options_.statistics->is_due();
  return reinterpret_cast<std::uintptr_t>(this) + (counts ? 1 : 0);
}

void TrainOneStepWithLossScale::run(const Tensor& input, const Tensor& labels) {
  losses_.clear();
  if (!accumulate_all(input, labels) || !take_losses()) return;
  begin(StepPhase::kUpdate);
  do_host_work("update", {}, optimizer_.params(), [this](std::span<const Tensor>) {
    update();
    end_phase();
    return true;
  });
  optimizer_.zero_grad();
}

bool TrainOneStepWithLossScale::accumulate_all(const Tensor& input, const Tensor& labels) {
  const std::int64_t parts = options_.micro_batches;
  if (parts == 1) return accumulate(input, labels, 1);
  const std::int64_t n = input.size(0);
  check_arg(n >= parts && labels.size(0) == n, "train_step", "cannot split a batch of ", n,
            " examples and ", labels.size(0), " labels into ", parts, " micro-batches");
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t start = i * n / parts;
    const std::int64_t end = (i + 1) * n / parts;
    const double weight = static_cast<double>(end - start) / static_cast<double>(n);
    if (!accumulate(slice(input, 0, start, end), slice(labels, 0, start, end), weight)) {
      return false;
    }
  }
  return true;
}

bool TrainOneStepWithLossScale::accumulate(const Tensor& input, const Tensor& labels,
                                           double weight) {
  begin(StepPhase::kForward);
  const Tensor output = forward(net_, input, options_.policy);
  const Tensor loss = loss_(output, is_lower(labels.dtype()) ? labels.astype(DType::kF32) : labels);
  // Detached: a loss that is looked at late would keep its tape until then.
  losses_.push_back({loss.detach(), weight});
  if (!looks_late(loss) && !take_losses()) return false;
  begin(StepPhase::kBackward);
  scaler_.scale(weight == 1 ? loss : loss * weight).backward();
  return true;
}

// Looks at the losses that it has not looked at yet.
bool TrainOneStepWithLossScale::take_losses() {
  std::vector<Tensor> losses;
  std::vector<double> weights;
  for (const auto& [loss, weight] : std::exchange(losses_, {})) {
    losses.push_back(loss);
    weights.push_back(weight);
  }
  if (losses.empty()) return true;
  return do_host_work("take_loss", losses, {}, [this, weights](std::span<const Tensor> reads) {
    for (std::size_t i = 0; i < reads.size(); ++i) add_loss(reads[i].item(), weights[i]);
    return goes_on();
  });
}

void TrainOneStepWithLossScale::add_loss(double loss, double weight) {
  result_.loss += weight * loss;
  result_.nonfinite_loss |= !std::isfinite(loss);
}

bool TrainOneStepWithLossScale::goes_on() {
  const bool skips = options_.nonfinite_loss == NonfiniteLoss::kSkip && may_skip();
  if (!result_.nonfinite_loss || !skips) return true;
  end_phase();
  skip();
  return false;
}

void TrainOneStepWithLossScale::begin(StepPhase phase) {
  const auto mark = [this, phase](std::span<const Tensor>) {
    end_phase();
    phase_ = phase;
    if (options_.on_phase) options_.on_phase(phase);
    return true;
  };
  // Times alone are not worth a recording of their own for each part.
  const bool can_wait = !options_.on_phase && phase != StepPhase::kUpdate;
  do_host_work(name_of(phase), {}, {}, mark,
               can_wait ? HostWorkTime::kCanWait : HostWorkTime::kInPlace);
}

// Adds the time since it began to the phase that is under way.
void TrainOneStepWithLossScale::end_phase() {
  const auto now = std::chrono::steady_clock::now();
  const double ms = std::chrono::duration<double, std::milli>(now - phase_begin_).count();
  switch (phase_) {
    case StepPhase::kForward: result_.forward_ms += ms; break;
    case StepPhase::kBackward: result_.backward_ms += ms; break;
    case StepPhase::kUpdate: result_.update_ms += ms; break;
  }
  phase_begin_ = now;
}

void TrainOneStepWithLossScale::update() {
  clip();
  if (!result_.skipped) {
    const StepResult step = scaler_.step(optimizer_);
    result_.overflow = step.found_inf;
    result_.skipped = step.found_inf;
    if (step.first_bad.has_value()) result_.first_bad = name_of_parameter(*step.first_bad);
  }
  skipped_in_a_row_ = result_.skipped ? skipped_in_a_row_ + 1 : 0;
  result_.skipped_in_a_row = skipped_in_a_row_;
  if (result_.skipped && options_.restore_buffers) snapshot_.restore();
  scaler_.update();
  if (result_.skipped) {
    logging::write(logging::Topic::kAmp, "the gradient of ", result_.first_bad,
                   " is not finite at scale ", result_.scale, "; the next scale is ",
                   scaler_.get_scale());
  }
}

void TrainOneStepWithLossScale::clip() {
  if (!options_.max_grad_norm.has_value()) return;
  scaler_.unscale_(optimizer_);
  result_.grad_norm = optim::clip_grad_norm(optimizer_.params(), *options_.max_grad_norm);
  // Known for free, although nothing else checks where nothing is scaled.
  if (scaler_.is_enabled() || std::isfinite(*result_.grad_norm)) return;
  const std::optional<std::size_t> bad = optim::first_nonfinite_grad(optimizer_.params());
  result_.overflow = true;
  result_.skipped = true;
  if (bad.has_value()) result_.first_bad = name_of_parameter(*bad);
}

void TrainOneStepWithLossScale::skip() {
  result_.skipped = true;
  result_.skipped_in_a_row = ++skipped_in_a_row_;
  optimizer_.zero_grad();
  scaler_.discard();
  if (options_.restore_buffers) snapshot_.restore();
  logging::write(logging::Topic::kAmp, "step skipped: its loss is ", result_.loss,
                 ". The scale stays at ", scaler_.get_scale(), ", for no other mends that");
}

void TrainOneStepWithLossScale::set_skipped_in_a_row(std::int64_t steps) {
  check_arg(steps >= 0, "train_step", "the steps skipped in a row must not be negative: ", steps);
  skipped_in_a_row_ = steps;
}

std::string TrainOneStepWithLossScale::name_of_parameter(std::size_t i) const {
  const Tensor& param = optimizer_.params()[i];
  for (const NamedTensor& entry : net_.named_parameters()) {
    if (entry.tensor.impl() == param.impl()) return entry.name;
  }
  return concat("parameter ", i, " of the optimizer");
}

namespace {

// What the network is to be set to; empty if it stays as it is.
std::optional<Policy> policy_for(Level level, const TrainNetworkOptions& options) {
  const bool casts = level == Level::kO2 || level == Level::kO3;
  const DType model_type = options.cast_model_type.value_or(casts ? options.dtype : DType::kF32);
  const bool keeps = options.keep_batchnorm_fp32.value_or(level == Level::kO2);
  check_arg(is_lower(options.dtype), "build_train_network", "dtype must be bf16 or f16, it is ",
            options.dtype);
  check_arg(model_type == DType::kF32 || is_lower(model_type), "build_train_network",
            "cast_model_type must be f32, bf16 or f16, it is ", model_type);
  if (is_lower(model_type)) {
    return Policy{.level = keeps ? Level::kO2 : Level::kO3,
                  .lower = model_type,
                  .keep_batchnorm_fp32 = keeps};
  }
  if (level == Level::kO2 && !keeps) {
    return Policy{.level = Level::kO3, .lower = options.dtype, .keep_batchnorm_fp32 = false};
  }
  if (casts) return std::nullopt;
  return Policy{
      .level = level, .lower = options.dtype, .keep_batchnorm_fp32 = options.keep_batchnorm_fp32};
}

LossScaleManager manager_for(Level level, DType dtype, const TrainNetworkOptions& options) {
  if (options.loss_scale_manager.has_value()) return *options.loss_scale_manager;
  if (dtype != DType::kF16) return {};
  if (level == Level::kO2) return DynamicLossScaleManager();
  logging::warn_once(concat("f16 at level ", name_of(level),
                            " without loss scaling, which is this level's default: gradients under "
                            "2^-24 are lost. Give a DynamicLossScaleManager"));
  return {};
}

}  // namespace

TrainOneStepWithLossScale build_train_network(nn::Module& net, LossFunction loss,
                                              optim::Optimizer& optimizer,
                                              const TrainNetworkOptions& options) {
  const std::optional<Level> level = parse_level(options.level);
  check_arg(level.has_value(), "build_train_network", "unknown level `", options.level,
            "`. There are O0, O1, auto, O2 and O3");
  check_options(options.step);
  const std::optional<Policy> policy = policy_for(*level, options);
  const DType dtype = policy.has_value() ? policy->dtype() : DType::kF32;
  GradScaler scaler(manager_for(*level, dtype, options));
  if (policy.has_value()) set_policy(net, *policy);
  return {net, std::move(loss), optimizer, std::move(scaler), options.step};
}

}  // namespace mezzo::amp
