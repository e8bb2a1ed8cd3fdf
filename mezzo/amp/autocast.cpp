#include "mezzo/amp/autocast.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/call_observer.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo::amp {
namespace {

struct State {
  bool enabled = false;
  Policy policy;
};
thread_local State region_state;
thread_local CallObserver* call_observer = nullptr;

bool is_taken(const Tensor& input) { return input.defined() && amp::takes_part(input.dtype()); }

}  // namespace

void cast_inputs(const OpDef& op, Operands& operands, DType dtype) {
  // If an input is f64, the others are not rounded: the result would still be f64, but less
  // accurate.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor& input = operands[i];
    if (op.precision.may_cast(i) && input.defined() && input.dtype() == DType::kF64) return;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor& input = operands[i];
    if (!op.precision.may_cast(i) || !is_taken(input) || input.dtype() == dtype) continue;
    operands.replace(i, cast(input, dtype));
  }
}

void round_parameters(const Policy& policy, const OpDef& op, Operands& operands) {
  if (!rounds_parameters(policy, op)) [[likely]]
    return;
  // The parameters are the inputs that are never cast and that can have gradients, even if they are
  // not trained; the other inputs that are never cast are statistics.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor& input = operands[i];
    if (op.precision.may_cast(i) || !is_taken(input) || !has_bit(op.grad_inputs, i)) continue;
    operands.replace(i, cast(cast(input, policy.lower), DType::kF32));
  }
}

namespace {

// Casts the inputs as the policy requires, and returns the action.
CastAction apply_policy(const Policy& policy, const OpDef& op, Operands& operands) {
  const CastAction action = action_for(policy, op);
  switch (action) {
    case CastAction::kNone: break;
    case CastAction::kToLower: cast_inputs(op, operands, policy.lower); break;
    case CastAction::kToFloat32: cast_inputs(op, operands, DType::kF32); break;
    case CastAction::kRefuse: refuse(policy, op);
  }
  round_parameters(policy, op, operands);
  return action;
}

void apply_observed(const OpDef& op, Operands& operands) {
  std::vector<Tensor> before;
  before.reserve(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) before.push_back(operands[i]);
  const Policy* policy = region_state.enabled ? &region_state.policy : nullptr;
  const CastAction action =
      policy != nullptr ? apply_policy(*policy, op, operands) : CastAction::kNone;
  call_observer->on_call({op, before, operands.view(), action, policy});
}

class RegionAgain final : public PrecisionContext {
 public:
  RegionAgain(const Policy& policy, bool enabled) : policy_(policy), enabled_(enabled) {}
  void run(const std::function<void()>& body) const override {
    const Autocast region(policy_, enabled_);
    body();
  }

 private:
  Policy policy_;
  bool enabled_;
};

class Hook final : public PrecisionHook {
 public:
  std::shared_ptr<const PrecisionContext> context() const override {
    return std::make_shared<RegionAgain>(region_state.policy, region_state.enabled);
  }

  void prepare(const OpDef& op, Operands& operands) override {
    if (call_observer != nullptr) [[unlikely]] {
      apply_observed(op, operands);
    } else {
      apply_policy(region_state.policy, op, operands);
    }
  }
};

// One object for all threads; it has no state of its own.
Hook autocast_hook;

// `layer1.fc.weight`, or with `@768` for a part of that parameter; `layer1.linear` for a product
// with something else.
std::string name_of_product(const OpDef& op, const Tensor& weight) {
  const nn::Module* module = nn::current_module();
  if (module == nullptr) return op.name;
  const std::string path = module->path();
  const std::string prefix = path.empty() ? path : path + '.';
  for (const nn::Module::Member& member : module->own_parameters()) {
    if (member.tensor->storage().get() != weight.storage().get()) continue;
    const std::int64_t offset = weight.offset() - member.tensor->offset();
    return concat(prefix, member.name, offset != 0 ? concat('@', offset) : "");
  }
  return prefix + op.name;
}

// The products that the region of a thread computes in eight bits.
class RegionProducts final : public ScaledProducts {
 public:
  std::optional<ScaledProduct> of(const OpDef& op, const Tensor& weight) override {
    const Policy& policy = region_state.policy;
    if (!region_state.enabled || policy.eight_bits == nullptr) return std::nullopt;
    const EightBits& eight = *policy.eight_bits;
    const bool is_named =
        eight.ops.empty() || std::ranges::find(eight.ops, op.name) != eight.ops.end();
    // A user's rule means the region's 16 bits; the rows of a plan name the operations.
    const bool has_rule =
        eight.ops.empty() && policy.rules != nullptr && policy.rules->action_of(op).has_value();
    const bool applies = eight.everywhere && is_named && !has_rule &&
                         action_for(policy, op) == CastAction::kToLower &&
                         !eight.keeps(nn::current_module());
    if (!applies) return std::nullopt;
    ScaledProduct product{eight.recipe, policy.lower};
    if (eight.histories != nullptr) {
      product.scales = eight.histories->of(name_of_product(op, weight), weight.device());
      product.takes_notes = eight.histories->takes_notes();
    }
    return product;
  }
};

RegionProducts region_products;

ScaleHistories* histories_of(const Policy& policy) {
  return policy.eight_bits != nullptr ? policy.eight_bits->histories.get() : nullptr;
}

// A forward pass begins where a region with histories does, but not within a region with the same
// ones, nor where a backward pass computes something again. Without gradients it is an evaluation.
void begin_forward(const Policy& policy) {
  ScaleHistories* const own = histories_of(policy);
  if (own == nullptr || differentiated_node() != nullptr) return;
  if (region_state.enabled && histories_of(region_state.policy) == own) return;
  own->begin_forward(grad_enabled());
}

void apply(bool enabled, const Policy& policy) {
  set_scaled_products(&region_products);
  region_state.enabled = enabled;
  region_state.policy = policy;
  set_precision_hook(enabled || call_observer != nullptr ? &autocast_hook : nullptr);
}

void check_policy(const Policy& policy) {
  const bool ok =
      is_lower(policy.lower) || (policy.lower == DType::kF32 && policy.level == Level::kO3);
  check_arg(ok, "autocast", "the lower dtype must be ", lower_dtypes(),
            ", and f32 at O3 only: it is ", policy.lower, " at ", policy.level);
  check_arg(
      policy.eight_bits == nullptr || !policy.eight_bits->everywhere || is_lower(policy.lower),
      "autocast", "products in eight bits need a lower dtype for the rest: it is ", policy.lower,
      ". Use bf16");
}

}  // namespace

Autocast::Autocast(DType lower, bool enabled) : Autocast(Policy{.lower = lower}, enabled) {}

Autocast::Autocast(const Policy& policy, bool enabled)
    : previous_policy_(region_state.policy),
      previous_enabled_(region_state.enabled),
      previous_hook_(precision_hook()) {
  if (enabled) {
    enable_autocast(policy);
  } else {
    disable_autocast();
  }
}

// Restores the hook directly instead of calling apply(): backward() runs without a hook even within
// a region, and opens regions of its own for what it recomputes.
Autocast::~Autocast() {
  region_state = {previous_enabled_, std::move(previous_policy_)};
  set_precision_hook(previous_hook_);
}

// O0 casts nothing, so its lower dtype is not checked: programs that turn mixed precision off by a
// flag pass f32.
void enable_autocast(const Policy& policy) {
  if (policy.level == Level::kO0) return disable_autocast();
  check_policy(policy);
  begin_forward(policy);
  apply(true, policy);
}

void disable_autocast() { apply(false, region_state.policy); }

ObserveCalls::ObserveCalls(CallObserver& calls) : previous_(std::exchange(call_observer, &calls)) {
  apply(region_state.enabled, region_state.policy);
}

ObserveCalls::~ObserveCalls() {
  call_observer = previous_;
  apply(region_state.enabled, region_state.policy);
}

bool is_autocast_enabled() { return region_state.enabled; }
const Policy& autocast_policy() { return region_state.policy; }

}  // namespace mezzo::amp
