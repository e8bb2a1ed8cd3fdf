#include "mezzo/amp/plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/call_observer.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::amp {
namespace {

bool is_parameter(const Tensor& tensor) { return tensor.requires_grad() && tensor.is_leaf(); }

// The dtype that the operation computes in: the common dtype of its floating-point inputs. Inputs
// that are never cast (a bias, statistics) count only if there are no others. A product of codes
// computes in eight bits, whatever the dtype of its scales.
DType dtype_of(const OpDef& op, Inputs inputs) {
  for (const Tensor* input : inputs) {
    if (input->defined() && is_eight_bit(input->dtype())) return input->dtype();
  }
  std::optional<DType> found;
  for (const std::uint32_t mask : {op.precision.cast_mask, kAllInputs}) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool counts = has_bit(mask, i) && inputs[i]->defined();
      if (!counts || !is_floating(inputs[i]->dtype())) continue;
      const DType dtype = inputs[i]->dtype();
      found = found.has_value() ? promote(*found, dtype) : dtype;
    }
    if (found.has_value()) break;
  }
  return found.value_or(inputs.empty() || !inputs[0]->defined() ? DType::kF32 : inputs[0]->dtype());
}

bool is_set_by_user(const Policy& policy, const OpDef& op) {
  return policy.rules != nullptr && policy.rules->action_of(op).has_value();
}

}  // namespace

const char* rule_name(const Policy* policy, const OpDef& op) {
  if (policy == nullptr) return "none";
  if (policy->lower == DType::kF32 || is_set_by_user(*policy, op)) return "user";
  return name_of(op.precision.of(policy->lower));
}

namespace {

class Recorder final : public CallObserver {
 public:
  void on_call(const ObservedCall& call) override {
    if (call.op.view != nullptr) return;
    if (std::string_view(call.op.name) == "cast") ++plan_.casts;
    PlannedOp planned{.path = nn::current_module_path(),
                      .op = call.op.name,
                      .dtype = dtype_of(call.op, call.after)};
    explain(call, planned);
    for (std::size_t i = 0; i < call.before.size(); ++i) note_input(call, i, planned);
    plan_.ops.push_back(std::move(planned));
  }

  Plan take() { return std::move(plan_); }

 private:
  // The level's decision, where it differs from the operation's own class.
  static std::string level_says(const Policy& policy, DType dtype, const std::string& own) {
    const std::string why = policy.level == Level::kO3
                                ? std::string("everything is cast here")
                                : concat("level ", policy.level, " says ", dtype);
    return concat(why, "; of itself: ", own);
  }

  static void explain(const ObservedCall& call, PlannedOp& planned) {
    planned.rule = rule_name(call.policy, call.op);
    if (call.policy == nullptr) {
      planned.reason = "outside mixed precision: computes in the dtype of its inputs";
      return;
    }
    planned.reason = call.op.precision.reason;
    if (call.op.precision.cast_mask == 0) return;  // no region decides anything about it
    const PrecisionClass own = call.op.precision.of(call.policy->lower);
    if (call.policy->lower == DType::kF32) {
      planned.reason = "its module is set to f32";
    } else if (is_set_by_user(*call.policy, call.op)) {
      planned.reason = "set by the user";
    } else if (call.action == CastAction::kToLower && own != PrecisionClass::kLower) {
      planned.reason = level_says(*call.policy, call.policy->lower, planned.reason);
    } else if (call.action == CastAction::kToFloat32 && own != PrecisionClass::kFloat32) {
      planned.reason = level_says(*call.policy, DType::kF32, planned.reason);
    }
    if (is_lower(call.policy->lower) && rounds_parameters(*call.policy, call.op)) {
      planned.reason += concat("; its parameters are rounded to ", call.policy->lower,
                               ", because keep_batchnorm_fp32 is off");
    }
  }

  void note_input(const ObservedCall& call, std::size_t i, PlannedOp& planned) {
    const Tensor& before = call.before[i];
    if (!before.defined()) return;
    const DType to = call.after[i]->dtype();
    if (before.dtype() == to && before.storage() != call.after[i]->storage()) {
      // The cast was made by round_parameters().
      note_cast(i, before, call.policy->lower, planned);
      ++plan_.casts;
      planned.casts.push_back({.input = i, .from = call.policy->lower, .to = to});
      return;
    }
    if (before.dtype() == to) {
      const bool wanted_lower = call.action == CastAction::kToLower && is_lower(to);
      if (wanted_lower && !is_parameter(before)) ++plan_.avoided_casts;
      return;
    }
    note_cast(i, before, to, planned);
  }

  void note_cast(std::size_t i, const Tensor& before, DType to, PlannedOp& planned) {
    PlannedCast cast{.input = i, .from = before.dtype(), .to = to};
    cast.parameter = is_parameter(before);
    if (cast.parameter) {
      cast.shared =
          !copies_.emplace(before.storage().get(), before.offset(), before.version(), to).second;
    }
    ++(cast.shared ? plan_.shared_casts : plan_.casts);
    planned.casts.push_back(cast);
  }

  Plan plan_;
  std::set<std::tuple<const Storage*, std::int64_t, std::uint64_t, DType>> copies_;
};

}  // namespace

std::int64_t Plan::count(DType dtype) const {
  return std::ranges::count(ops, dtype, &PlannedOp::dtype);
}

std::vector<std::string> Plan::named_without_calls(const Policy& policy) const {
  if (policy.rules == nullptr) return {};
  std::vector<std::string> called;
  for (const PlannedOp& op : ops) {
    if (op.rule != "none") called.push_back(op.op);
  }
  return policy.rules->without_calls(called);
}

Plan make_plan(const std::function<void()>& forward) {
  const NoGrad no_grad;
  Recorder recorder;
  const ObserveCalls observing(recorder);
  forward();
  return recorder.take();
}

Plan make_plan(nn::Module& net, const Shape& input, const Policy& policy) {
  return make_plan(net, zeros(input, DType::kF32, Format::kContiguous, net.device()), policy);
}

Plan make_plan(nn::Module& net, const Tensor& input, const Policy& policy) {
  const nn::Inference inference(net);
  return make_plan([&] {
    Tensor logits;
    {
      const Autocast region(policy);
      logits = net(input);
    }
    // The logits of tokens, [n, t, classes].
    if (!is_floating(input.dtype()) && logits.rank() == input.rank() + 1) {
      logits = flatten(logits, 0, -2);
    }
    Shape places = logits.shape();
    if (places.rank() > 1) places.erase(1);
    const Tensor labels = zeros(places, DType::kI64, Format::kContiguous, input.device());
    cross_entropy(logits.astype(DType::kF32), labels);
  });
}

Plan make_plan(nn::Module& net, const LossOfBatch& loss, const Batch& batch, const Policy& policy) {
  check_arg(loss != nullptr, "plan", "the loss is null. Give one");
  const nn::Inference inference(net);
  const LossOfBatch under_policy = loss.with_regions(net, policy);
  return make_plan([&] {
    Batch own = batch;
    under_policy(own);
  });
}

std::string describe_casts(const PlannedOp& op) {
  std::string text;
  for (const PlannedCast& cast : op.casts) {
    if (!text.empty()) text += ", ";
    text += concat("x", cast.input, " ", cast.from, ">", cast.to);
    if (cast.parameter) text += cast.shared ? " (parameter, shared)" : " (parameter)";
  }
  return text;
}

}  // namespace mezzo::amp
