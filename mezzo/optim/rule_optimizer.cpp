#include "mezzo/optim/rule_optimizer.h"

#include <algorithm>
#include <string>

#include "mezzo/core/random.h"
#include "mezzo/ops/update/narrow_state.h"
#include "mezzo/optim/elements.h"

namespace mezzo::optim {

RuleOptimizer::RuleOptimizer(const char* name, const UpdateRule& most, Steps steps)
    : Optimizer(name),
      slot_names_(most.slot_names),
      slot_count_(most.slots),
      counts_steps_(steps) {}

namespace {

constexpr const char* kScale = "_scale";
constexpr const char* kStateSeed = "state_rounding.seed";

std::uint64_t new_seed() {
  const std::uint64_t high = default_generator().next();
  return high << 32 | default_generator().next();
}

}  // namespace

void RuleOptimizer::add_group(const std::vector<Tensor>& params, const LearningRate& lr,
                              ParamUpdate rule, DType state_dtype) {
  check_arg(can_hold_state(state_dtype), name(), "state_dtype is ", state_dtype,
            ", which state cannot be kept in. Use ", kStateDTypes);
  Optimizer::add_group(params, lr, rule);
  state_dtypes_.resize(this->params().size(), state_dtype);
  grow();
  if (state_dtype != DType::kF32 && !state_seed_.has_value()) state_seed_ = new_seed();
}

// A class derived from this one may have called add_group() of the base.
void RuleOptimizer::grow() {
  slots_.resize(params().size());
  scales_.resize(params().size());
  steps_.resize(params().size());
  state_dtypes_.resize(params().size(), DType::kF32);
  for (std::size_t i = state_starts_.size() - 1; i < params().size(); ++i) {
    const auto words = static_cast<std::uint64_t>(state_words(whole_params()[i].numel()));
    state_starts_.push_back(state_starts_.back() + slot_count_ * words);
  }
}

DType RuleOptimizer::state_dtype(std::size_t i) const {
  return state_dtype_of(state_dtypes_[i], whole_params()[i].numel());
}

// Every update has a part of the stream, which holds one for each parameter with room for all
// slots. So the numbers depend neither on the order of parameters within a step nor on which of
// them have gradients, and a step that is skipped and tried again uses the same ones.
RandomPosition RuleOptimizer::state_random(std::size_t i) const {
  const std::uint64_t of_an_update = state_starts_.back();
  const auto of_earlier_parts = static_cast<std::uint64_t>(state_words(part_of(i).begin));
  return {*state_seed_, static_cast<std::uint64_t>(updates()) * of_an_update + state_starts_[i] +
                            of_earlier_parts};
}

// Blocks follow the order of memory. A parameter may lie in two orders, which state in a file does
// not tell; the shape of its scales does.
Tensor RuleOptimizer::empty_scales(const Tensor& param) {
  const std::int64_t count = scales_of(param.numel());
  const bool is_row_major = param.format() == Format::kContiguous;
  return zeros(is_row_major ? Shape{count} : Shape{count, 1}, DType::kF32, Format::kContiguous,
               param.device());
}

void RuleOptimizer::set_state_of(std::size_t i, const UpdateRule& rule, UpdateTensors& tensors) {
  const DType dtype = state_dtype(i);
  for (std::size_t k = 0; k < rule.slots; ++k) {
    const std::size_t place = slot_named(rule.slot_names[k]);
    const bool has_scales = scales_[i][place].defined();
    check_arg(dtype != DType::kE4m3 || slots_[i][place].defined() == has_scales, name(),
              "of the state `", slot_names_[place], ".", i,
              "` there is only one of the two that "
              "e4m3 needs, numbers and scales. Set both");
    tensors.slots[k] = ensure(slots_[i][place], [&] { return zeros_like(i, dtype); });
    if (dtype != DType::kE4m3) continue;
    tensors.scales[k] = ensure(scales_[i][place], [&] { return empty_scales(params()[i]); });
  }
  if (dtype == DType::kF32) return;
  tensors.state_random = state_random(i);
  tensors.state_words = state_words(whole_params()[i].numel());
}

std::size_t RuleOptimizer::slot_named(const char* slot_name) const {
  const auto is_it = [=](const char* other) { return std::string_view(other) == slot_name; };
  const auto end = slot_names_.begin() + static_cast<std::ptrdiff_t>(slot_count_);
  const auto found = std::find_if(slot_names_.begin(), end, is_it);
  check_arg(found != end, name(), "its rule has the slot `", slot_name,
            "`, which the rule that it was created with does not have. Create it with the rule "
            "that has the most slots");
  return static_cast<std::size_t>(found - slot_names_.begin());
}

void RuleOptimizer::update(std::size_t group, const std::vector<Active>& active, double inv_scale,
                           UpdateQueue* queue) {
  grow();
  const GroupRule rule = rule_of(group);
  const UpdateRule& own = *rule.rule;
  const std::size_t first_slot = own.slots > 0 ? slot_named(own.slot_names[0]) : 0;
  std::vector<UpdateTensors> tensors;
  tensors.reserve(active.size());
  for (const Active& a : active) {
    const std::size_t i = a.index;
    UpdateTensors& t = tensors.emplace_back(UpdateTensors{.param = params()[i], .grad = a.grad});
    const bool is_new = !slots_[i][first_slot].defined();
    set_state_of(i, own, t);
    t.own = own_of(group, {.step = steps_[i] + 1, .is_new = is_new});
    t.half = half_update(i);
  }
  const UpdateStep step{rule.rule, rule.factors, inv_scale};
  if (queue == nullptr) return update_step(tensors, step);
  put(*queue, params_in(group), tensors, step);
}

void RuleOptimizer::count_step(const std::vector<Active>& active) {
  if (counts_steps_ == Steps::kNotCounted) return;
  for (const Active& a : active) ++steps_[a.index];
}

std::vector<NamedTensor> RuleOptimizer::state() const {
  std::vector<NamedTensor> result;
  for (std::size_t k = 0; k < slot_count_; ++k) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i][k].defined()) result.push_back({concat(slot_names_[k], ".", i), slots_[i][k]});
    }
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      if (!scales_[i][k].defined()) continue;
      result.push_back({concat(slot_names_[k], kScale, ".", i), scales_[i][k]});
    }
  }
  append_half_state(result);
  return result;
}

std::vector<NamedCounter> RuleOptimizer::counters() const {
  std::vector<NamedCounter> result;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] > 0) result.push_back({concat("step.", i), steps_[i]});
  }
  if (state_seed_.has_value()) {
    result.push_back({kStateSeed, static_cast<std::int64_t>(*state_seed_)});
  }
  append_shared_counters(result);
  return result;
}

std::size_t RuleOptimizer::slot_of(std::string_view state_name) const {
  for (std::size_t k = 0; k < slot_count_; ++k) {
    if (state_name.starts_with(concat(slot_names_[k], "."))) return k;
  }
  return 0;
}

bool RuleOptimizer::is_of_scales(std::string_view state_name) const {
  const auto end = slot_names_.begin() + static_cast<std::ptrdiff_t>(slot_count_);
  return std::any_of(slot_names_.begin(), end, [&](const char* slot) {
    return state_name.starts_with(concat(slot, kScale, "."));
  });
}

// Narrow state is not converted: its bits are those of this optimizer's numbers, and state that was
// kept in another dtype would go on to train with a different result than the run that it came
// from.
void RuleOptimizer::check_state_dtype(std::size_t i, std::string_view state_name,
                                      const Tensor& tensor) const {
  const DType wanted = state_dtype(i);
  const DType given = tensor.defined() ? tensor.dtype() : wanted;
  const auto is_narrow = [](DType dtype) { return dtype != DType::kF32 && can_hold_state(dtype); };
  check_arg(given == wanted || (!is_narrow(given) && !is_narrow(wanted)), name(), "the state `",
            state_name, "` was kept in ", given, ", this optimizer keeps it in ", wanted,
            ". Make the optimizer with state_dtype ", given, " (--optimizer-state ", given,
            "), or begin anew");
}

void RuleOptimizer::set_scales(std::string_view state_name, const Tensor& tensor) {
  std::size_t k = 0;
  while (!state_name.starts_with(concat(slot_names_[k], kScale, "."))) ++k;
  const std::size_t i = index_in(state_name, concat(slot_names_[k], kScale));
  check_arg(state_dtype(i) == DType::kE4m3, name(), "the state `", state_name,
            "` belongs to e4m3, parameter ", i, " keeps its state in ", state_dtype(i),
            ". Make the optimizer with state_dtype e4m3 (--optimizer-state e4m3), or begin anew");
  const Tensor own = empty_scales(params()[i]);
  const Tensor whole = empty_scales(whole_params()[i]);
  const bool is_part = tensor.defined() && tensor.shape() == own.shape();
  check_arg(tensor.defined() && tensor.dtype() == DType::kF32 &&
                (is_part || tensor.shape() == whole.shape()),
            name(), "the state `", state_name, "` is ", tensor, ", parameter ", i, " (",
            whole_params()[i], ") needs ", whole,
            ". Load the state of the same parameters in the same memory format");
  copy_elements(tensor, is_part ? own : whole);
  const std::int64_t begin = scales_of(part_of(i).begin);
  scales_[i][k] = is_part ? own : copy_of(elements_of(whole, {begin, begin + own.numel()}));
}

Tensor RuleOptimizer::whole_like(const NamedTensor& entry) const {
  if (!is_of_scales(entry.name)) return Optimizer::whole_like(entry);
  return empty_scales(whole_params()[parameter_of(entry.name)]);
}

void RuleOptimizer::set_state(std::string_view state_name, const Tensor& tensor) {
  if (set_half_state(state_name, tensor)) return;
  check_arg(slot_count_ > 0, name(), "has no state called `", state_name, "`. Leave it out");
  grow();
  if (is_of_scales(state_name)) return set_scales(state_name, tensor);
  const std::size_t k = slot_of(state_name);
  const std::size_t i = index_in(state_name, slot_names_[k]);
  check_state_dtype(i, state_name, tensor);
  assign(slots_[i][k], i, state_name, tensor, state_dtype(i));
}

void RuleOptimizer::set_counter(std::string_view counter_name, std::int64_t value) {
  if (set_shared_counter(counter_name, value)) return;
  if (counter_name == kStateSeed) {
    check_arg(state_seed_.has_value(), name(), "has no counter called `", counter_name,
              "`: its state is f32. Make the optimizer with the state_dtype of the one that was "
              "saved");
    state_seed_ = static_cast<std::uint64_t>(value);
    return;
  }
  check_arg(counts_steps_ == Steps::kCounted, name(), "has no counter called `", counter_name,
            "`. Leave it out");
  grow();
  const std::size_t i = index_in(counter_name, "step");
  check_arg(value >= 0, name(), "the counter `", counter_name, "` must not be negative: ", value);
  steps_[i] = value;
}

void RuleOptimizer::clear_state() {
  clear_shared_state();
  for (Slots& slots : slots_) slots = {};
  for (Slots& scales : scales_) scales = {};
  std::ranges::fill(steps_, 0);
}

}  // namespace mezzo::optim
