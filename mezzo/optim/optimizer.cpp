#include "mezzo/optim/optimizer.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <utility>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/optim/elements.h"
#include "mezzo/optim/queued_step.h"
#include "mezzo/optim/step_in_parts.h"

namespace mezzo::optim {

void Optimizer::add_group(const std::vector<Tensor>& params, const LearningRate& lr,
                          ParamUpdate rule) {
  check_lr(lr);
  check_arg(!is_sharded(), name_, "add_group() was called after shard(). Add all groups first");
  for (std::size_t i = 0; i < params.size(); ++i) check_new(params, i);
  for (const Tensor& param : params) {
    params_.push_back(param);
    halves_.push_back({.rule = rule});
    if (rule == ParamUpdate::kStochastic && is_lower(param.dtype()) && !rounding_.has_value()) {
      const std::uint64_t high = default_generator().next();
      rounding_.emplace(high << 32 | default_generator().next());
    }
  }
  ends_.push_back(params_.size());
  rates_.push_back(lr);
}

// Checks parameter i of a group that is to be added.
void Optimizer::check_new(const std::vector<Tensor>& group, std::size_t i) const {
  const Tensor& param = group[i];
  const std::size_t number = params_.size() + i;
  check_arg(param.defined(), name_, "parameter ", number, " is undefined. Leave it out");
  check_arg(is_trainable(param.dtype()), name_, "parameter ", number, " (", param, ") must be ",
            trainable_dtypes(), ". Use astype()");
  check_arg(param.is_leaf() && param.requires_grad(), name_, "parameter ", number, " (", param,
            ") is not trained. Leave it out, or call set_requires_grad(true) on it");
  check_arg(param.is_one_block(), name_, "parameter ", number, " (", param,
            ") is not dense. Train the tensor that it is a view of");
  for (std::size_t k = 0; k < number; ++k) {
    const Tensor& other = k < params_.size() ? params_[k] : group[k - params_.size()];
    check_arg(other.impl() != param.impl(), name_, "parameter ", number, " (", param,
              ") was given twice. Pass each once");
    check_arg(!have_same_elements(*other.impl(), *param.impl()) && !may_overlap(other, param),
              name_, "parameter ", number, " (", param, ") shares memory with parameter ", k, " (",
              other, "), which a step would update twice. Pass one of them");
  }
}

void Optimizer::check_captured(std::size_t params) const {
  check_arg(params == params_.size(), name_, "has ", params_.size(), " parameters, and had ",
            params, " when this step was captured. Capture the step again after add_group()");
}

bool Optimizer::can_take(std::size_t i, const Tensor& grad) const {
  const DType dtype = params_[i].dtype();
  return grad.dtype() == DType::kF32 || (is_lower(dtype) && grad.dtype() == dtype);
}

void Optimizer::check_grad(std::size_t i, const Tensor& grad) const {
  if (can_take(i, grad)) return;
  const Tensor& param = params_[i];
  const std::string also = is_lower(param.dtype()) ? concat(" or ", param.dtype()) : std::string();
  fail(name_, "the gradient of parameter ", i, " (", param, ") is ", grad, ", it must be f32", also,
       ". Let backward() make it, or cast it with astype(DType::kF32)");
}

void Optimizer::step(double inv_scale) {
  if (step_captured(inv_scale)) return;
  const NoGrad guard;
  const ActiveGroups active = begin_step();
  for (std::size_t g = 0; g < groups(); ++g) {
    if (!active[g].empty()) update_group(g, active[g], inv_scale);
  }
  count_steps(active);
}

// If it throws, for example for lack of memory, all state that it has created is removed: the next
// step would take it for state from an earlier step.
void Optimizer::update_group(std::size_t group, const std::vector<Active>& active,
                             double inv_scale) {
  const std::optional<Generator> rounding = rounding_;
  try {
    update(group, active, inv_scale, nullptr);
  } catch (...) {
    take_back(std::exchange(made_, {}));
    rounding_ = rounding;
    throw;
  }
  made_.clear();
}

// Removes created state, unless it has been replaced since.
void Optimizer::take_back(const std::vector<Made>& made) {
  for (const Made& entry : made) {
    if (entry.place->impl() == entry.tensor.get()) *entry.place = Tensor();
  }
}

bool Optimizer::step_captured(double inv_scale) {
  if (capture_hook() == nullptr) return false;
  if (captures_by_leaf() && StepInParts::fits(*this)) {
    note_step(inv_scale);
    return true;
  }
  if (!captures_for_recording() || !QueuedStep::fits(*this)) {
    return note_if_captured(name_, params_, [this, inv_scale, count = params_.size()] {
      check_captured(count);
      step(inv_scale);
    });
  }
  const auto queued = std::make_shared<QueuedStep>(*this);
  do_queued_work(
      name_, {}, params_, [queued, inv_scale] { queued->prepare(inv_scale); },
      [queued](std::span<const Tensor>) { queued->queue({}); });
  do_host_work("count_step", {}, {},
               [queued](std::span<const Tensor>) { return queued->finish(true), true; });
  return true;
}

void Optimizer::note_step(double inv_scale) {
  const auto parts = std::make_shared<StepInParts>(std::vector{this});
  note_by_leaf(name_, params_,
               {.begin = [parts, inv_scale] { parts->begin(inv_scale); },
                .some = [parts](std::span<const std::size_t> params) { parts->step(params); },
                .end = [parts] { parts->finish(); },
                .changes = parts->state()});
}

// Collects the parameters with gradients, and updates the state of 16-bit parameters that others
// have changed.
Optimizer::ActiveGroups Optimizer::begin_step() {
  ActiveGroups active(groups());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (params_[i].grad().defined()) active[group_of(i)].push_back(active_at(i));
  }
  follow_parameters();
  made_.clear();
  return active;
}

std::size_t Optimizer::group_of(std::size_t param) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, param) - ends_.begin());
}

Optimizer::Active Optimizer::active_at(std::size_t i) const {
  const Tensor& grad = params_[i].grad();
  check_grad(i, grad);
  return {i, to_format(grad.detach(), params_[i].format())};
}

void Optimizer::follow_parameters() {
  check_parts_have_gradients();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (has_half_state(i)) follow_parameter(i);
  }
}

void Optimizer::count_steps(const ActiveGroups& active) {
  for (const std::vector<Active>& group : active) count_step(group);
  const bool any = std::ranges::any_of(active, [](const auto& group) { return !group.empty(); });
  updates_ += any ? 1 : 0;
  // Only after the update: parameters may be views of one block of memory, which counts the changes
  // of all.
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (has_half_state(i)) halves_[i].version = params_[i].version();
  }
}

ShardRange Optimizer::part_of(std::size_t i) const {
  return range_of(whole_params()[i].numel(), shard_);
}

void Optimizer::shard(const Shard& shard) {
  check_arg(shard.part >= 0 && shard.part < shard.parts, name_, "shard() wants part ", shard.part,
            " of ", shard.parts, ". Parts count from 0");
  if (shard_ == shard) return;
  check_arg(!is_sharded(), name_, "is part ", shard_.part, " of ", shard_.parts,
            " already. Make another optimizer");
  const std::vector<NamedTensor> state = this->state();
  whole_ = params_;
  shard_ = shard;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    params_[i] = elements_of(whole_[i].detach(), part_of(i));
    params_[i].set_requires_grad(true);
  }
  for (const NamedTensor& entry : state) set_state(entry.name, entry.tensor);
}

// Tensors keep their memory when the network is moved to another device, and parts of them do not
// follow.
void Optimizer::check_not_moved() const {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    check_arg(
        params_[i].storage() == whole_[i].storage(), name_, "parameter ", i, " (", whole_[i],
        ") was moved after shard(). Move the network before, and make the optimizer after it");
  }
}

// A step would leave such a gradient out.
void Optimizer::check_parts_have_gradients() const {
  check_not_moved();
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    check_arg(!whole_[i].grad().defined(), name_, "parameter ", i, " (", whole_[i],
              ") has a gradient as a whole, but this optimizer updates part ", shard_.part, " of ",
              shard_.parts,
              ". Train by a TrainStep of these processes, or call "
              "give_gradients_to_parts() after the gradients were averaged");
  }
}

void Optimizer::note_gathered() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (has_half_state(i)) halves_[i].version = params_[i].version();
  }
}

bool Optimizer::has_half_state(std::size_t i) const {
  return halves_[i].master.defined() || halves_[i].compensation.defined();
}

// Adopts changes that others have made to the parameter since the last step.
void Optimizer::follow_parameter(std::size_t i) {
  Half& half = halves_[i];
  if (half.version == params_[i].version()) return;
  // The version may change without the values; refreshing a master is harmless then.
  if (half.master.defined()) refresh_master(params_[i], half.master);
  if (half.compensation.defined() && half.version.has_value()) fill(half.compensation, 0);
}

HalfUpdate Optimizer::half_update(std::size_t i) {
  const Tensor& param = params_[i];
  Half& half = halves_[i];
  HalfUpdate result{.rule = half.rule};
  if (!is_lower(param.dtype())) return result;
  if (half.rule == ParamUpdate::kMaster) {
    result.master = ensure(half.master, [&] { return cast(param.detach(), DType::kF32); });
  } else if (half.rule == ParamUpdate::kKahan) {
    result.compensation = ensure(half.compensation, [&] { return zeros_like(i, param.dtype()); });
  } else if (half.rule == ParamUpdate::kStochastic) {
    // 16 random bits per element, of the whole parameter in every process that has a part of it
    const Tensor& whole = whole_params()[i];
    result.random = rounding_->reserve((static_cast<std::uint64_t>(whole.numel()) + 1) / 2);
    result.random.offset += static_cast<std::uint64_t>(part_of(i).begin) / 2;
  }
  return result;
}

void Optimizer::zero_grad() {
  mezzo::zero_grad(params_);
  if (is_sharded()) mezzo::zero_grad(whole_);
}

void Optimizer::check_group(std::size_t group) const {
  check_arg(group < groups(), name_, "there is no group ", group, ", only ", groups(),
            ". Groups count from 0");
}

void Optimizer::check_lr(const LearningRate& lr) const {
  check_arg(lr.is_finite(), name_, "the learning rate must be finite in f32. Set a smaller one");
  check_arg(lr.lowest() >= 0, name_, "the learning rate must not be negative: ", lr.lowest());
}

double Optimizer::lr(std::size_t group) const {
  check_group(group);
  return rates_[group].at(updates_);
}

bool Optimizer::has_constant_lr(std::size_t group) const {
  check_group(group);
  return rates_[group].is_constant();
}

void Optimizer::set_lr(const LearningRate& lr) {
  for (std::size_t group = 0; group < groups(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(const LearningRate& lr, std::size_t group) {
  check_arg(capture_hook() == nullptr, name_,
            "set_lr() within a captured step would take effect at capture, and in no run. Call it "
            "between runs, or set an array of learning rates");
  check_group(group);
  check_lr(lr);
  rates_[group] = lr;
}

Tensor Optimizer::zeros_like(std::size_t i, DType dtype) const {
  return zeros(params_[i].shape(), dtype, params_[i].format(), params_[i].device());
}

std::size_t Optimizer::parameter_of(std::string_view state_name) const {
  return index_in(state_name, state_name.substr(0, state_name.rfind('.')));
}

Tensor Optimizer::whole_like(const NamedTensor& entry) const {
  const Tensor& whole = whole_params()[parameter_of(entry.name)];
  return zeros(whole.shape(), entry.tensor.dtype(), whole.format(), whole.device());
}

std::size_t Optimizer::index_in(std::string_view state_name, std::string_view prefix) const {
  std::size_t index = params_.size();
  if (state_name.starts_with(concat(prefix, "."))) {
    const std::string_view digits = state_name.substr(prefix.size() + 1);
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, index);
    const bool is_plain = digits.size() == 1 || !digits.starts_with('0');
    if (parsed.ec != std::errc() || parsed.ptr != end || !is_plain) index = params_.size();
  }
  check_arg(index < params_.size(), name_, "has no state called `", state_name, "`, expected `",
            prefix, ".<parameter>` with a parameter below ", params_.size());
  return index;
}

void Optimizer::assign(Tensor& state, std::size_t i, std::string_view state_name,
                       const Tensor& tensor, DType dtype) const {
  const Tensor& whole = whole_params()[i];
  const bool is_part = tensor.defined() && tensor.shape() == params_[i].shape();
  check_arg(is_part || (tensor.defined() && tensor.shape() == whole.shape()), name_, "the state `",
            state_name, "` is ", tensor, ", parameter ", i, " is ", whole,
            ". Load the state of the same parameters");
  const Tensor& like = is_part ? params_[i] : whole;
  const Tensor copy = zeros(like.shape(), dtype, like.format(), like.device());
  copy_elements(tensor, copy);
  state = is_part ? copy : copy_of(elements_of(copy, part_of(i)));
}

void Optimizer::append_half_state(std::vector<NamedTensor>& out) const {
  for (std::size_t i = 0; i < halves_.size(); ++i) {
    const Half& half = halves_[i];
    if (half.master.defined()) out.push_back({concat("master.", i), half.master});
    if (half.compensation.defined()) out.push_back({concat("compensation.", i), half.compensation});
  }
}

bool Optimizer::set_half_state(std::string_view state_name, const Tensor& tensor) {
  const bool is_master = state_name.starts_with("master.");
  if (!is_master && !state_name.starts_with("compensation.")) return false;
  const std::size_t i = index_in(state_name, is_master ? "master" : "compensation");
  const DType dtype = params_[i].dtype();
  Half& half = halves_[i];
  const ParamUpdate wanted = is_master ? ParamUpdate::kMaster : ParamUpdate::kKahan;
  check_arg(is_lower(dtype) && half.rule == wanted, name_, "has no state called `", state_name,
            "`: parameter ", i, " (", params_[i], ") is not updated that way. Make the optimizer ",
            "for the same parameters and with the same param_update as the one that was saved");
  assign(is_master ? half.master : half.compensation, i, state_name, tensor,
         is_master ? DType::kF32 : dtype);
  half.version.reset();
  return true;
}

void Optimizer::append_shared_counters(std::vector<NamedCounter>& out) const {
  if (rounding_.has_value()) {
    const RandomPosition position = rounding_->position();
    out.push_back({"rounding.seed", static_cast<std::int64_t>(position.seed)});
    out.push_back({"rounding.offset", static_cast<std::int64_t>(position.offset)});
  }
  if (updates_ > 0) out.push_back({"updates", updates_});
}

bool Optimizer::set_shared_counter(std::string_view counter_name, std::int64_t value) {
  if (counter_name != "updates") return set_rounding(counter_name, value);
  check_arg(value >= 0, name_, "the counter `updates` must not be negative: ", value);
  updates_ = value;
  return true;
}

bool Optimizer::set_rounding(std::string_view counter_name, std::int64_t value) {
  const bool is_seed = counter_name == "rounding.seed";
  if (!is_seed && counter_name != "rounding.offset") return false;
  check_arg(
      rounding_.has_value(), name_, "has no counter called `", counter_name,
      "`: no parameter is rounded stochastically. Leave it out, or set ParamUpdate::kStochastic");
  check_arg(is_seed || value >= 0, name_, "the counter `", counter_name,
            "` must not be negative: ", value);
  RandomPosition position = rounding_->position();
  (is_seed ? position.seed : position.offset) = static_cast<std::uint64_t>(value);
  rounding_->set_position(position);
  return true;
}

void Optimizer::clear_shared_state() {
  for (Half& half : halves_) half = {.rule = half.rule};
  updates_ = 0;
}

void put(UpdateQueue& queue, std::size_t most, const std::vector<UpdateTensors>& tensors,
         const UpdateStep& step) {
  const Device device = tensors.front().param.device();
  if (queue == nullptr || queue->device() != device) {
    queue = std::make_unique<QueuedUpdate>(most, device);
  }
  queue->put(tensors, step);
}

}  // namespace mezzo::optim
