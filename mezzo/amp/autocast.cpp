#include "mezzo/amp/autocast.h"

#include "mezzo/core/cpu.h"
#include "mezzo/ops/call.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {
namespace {

struct State {
  bool enabled = false;
  Policy policy;
};
thread_local State state;

void cast_inputs(const OpDef& op, Operands& operands, DType from_floating_to) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor& input = operands[i];
    const bool may_cast = (op.precision.cast_mask >> (i < 31 ? i : 31) & 1U) != 0;
    if (!may_cast || !input.defined() || input.dtype() == from_floating_to) continue;
    // Only f32 and the two 16-bit types take part; f64 was chosen for a reason.
    if (input.dtype() != DType::kF32 && !is_lower(input.dtype())) continue;
    operands.replace(i, cast(input, from_floating_to));
  }
}

class Hook final : public PrecisionHook {
 public:
  void prepare(const OpDef& op, Operands& operands) override {
    const DType lower = state.policy.lower;
    switch (action_for(state.policy.level, op.precision.of(lower))) {
      case CastAction::kNone: return;
      case CastAction::kToLower: cast_inputs(op, operands, lower); return;
      case CastAction::kToFloat32: cast_inputs(op, operands, DType::kF32); return;
      case CastAction::kRefuse:
        fail<ArgumentError>(op.name, "is not safe in ", lower, ": ", op.precision.reason);
    }
  }
};

// One object for all threads: it has no state of its own.
Hook hook;

void apply(bool enabled, const Policy& policy) {
  state = {enabled, policy};
  set_precision_hook(enabled ? &hook : nullptr);
}

}  // namespace

Autocast::Autocast(DType lower, bool enabled) : Autocast(Policy{Level::kO1, lower}, enabled) {}

Autocast::Autocast(const Policy& policy, bool enabled)
    : previous_policy_(state.policy), previous_enabled_(state.enabled) {
  check_arg(is_lower(policy.lower), "autocast", "the lower dtype must be bf16 or f16, it is ",
            policy.lower);
  const bool active = enabled && policy.level != Level::kO0;
  if (active && policy.lower == DType::kBf16) warn_if_bf16_is_emulated();
  apply(active, policy);
}

Autocast::~Autocast() { apply(previous_enabled_, previous_policy_); }

bool is_autocast_enabled() { return state.enabled; }
Policy autocast_policy() { return state.policy; }

}  // namespace mezzo::amp
