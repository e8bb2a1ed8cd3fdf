#include "mezzo/amp/policy.h"

#include <algorithm>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo::amp {
namespace {

// The first operation in a fused one that layers call; null for others. Graph passes fuse calls
// only after their precision is decided.
const OpDef* first_part_of(const OpDef& op) {
  return &op == &ops::batch_norm_add_relu ? &ops::batch_norm : nullptr;
}

}  // namespace

OpRules OpRules::white_list(std::span<const std::string> ops) {
  OpRules rules;
  for (const std::string& op : ops) rules.lower(op);
  rules.others_ = CastAction::kToFloat32;
  return rules;
}

OpRules OpRules::black_list(std::span<const std::string> ops) {
  OpRules rules;
  for (const std::string& op : ops) rules.keep_float32(op);
  rules.others_ = CastAction::kToLower;
  return rules;
}

OpRules& OpRules::set(std::string_view op, CastAction action) {
  const OpDef* def = find_op(op);
  check_arg(def != nullptr, "amp", "there is no operation `", op, "`. `mezzo ops` lists them");
  const auto found = std::ranges::find(actions_, def, &std::pair<const OpDef*, CastAction>::first);
  if (found != actions_.end()) {
    found->second = action;
  } else {
    actions_.emplace_back(def, action);
  }
  return *this;
}

const CastAction* OpRules::find(const OpDef* op) const {
  const auto found = std::ranges::find(actions_, op, &std::pair<const OpDef*, CastAction>::first);
  return found != actions_.end() ? &found->second : nullptr;
}

std::optional<CastAction> OpRules::action_of(const OpDef& op) const {
  const CastAction* found = find(&op);
  if (found == nullptr) found = find(first_part_of(op));
  return found != nullptr ? std::optional(*found) : others_;
}

std::vector<std::string> OpRules::without_calls(std::span<const std::string> called) const {
  std::vector<std::string> names;
  for (const auto& [op, action] : actions_) {
    const auto is_about = [named = op](const std::string& name) {
      const OpDef* const call = find_op(name);
      return call == named || (call != nullptr && first_part_of(*call) == named);
    };
    if (std::ranges::none_of(called, is_about)) names.emplace_back(op->name);
  }
  return names;
}

DType Policy::named_dtype() const {
  return eight_bits != nullptr && eight_bits->everywhere ? eight_bits->recipe.dtype : dtype();
}

CastAction action_for(const Policy& policy, const OpDef& op) {
  if (policy.level == Level::kO0 || op.view != nullptr) return CastAction::kNone;
  if (policy.rules != nullptr) {
    const std::optional<CastAction> said = policy.rules->action_of(op);
    const bool refused = op.precision.of(policy.lower) == PrecisionClass::kRefuse;
    if (said.has_value() && !(refused && *said == CastAction::kToLower)) return *said;
  }
  // f32 needs no refusal.
  if (policy.lower == DType::kF32) return CastAction::kToFloat32;
  return action_for(policy.level, op.precision.of(policy.lower));
}

void refuse(const Policy& policy, const OpDef& op) {
  fail<ArgumentError>(op.name, "is not safe in ", policy.lower, ": ", op.precision.reason);
}

bool rounds_parameters(const Policy& policy, const OpDef& op) {
  if (op.precision.of(policy.lower) != PrecisionClass::kKeep || policy.keeps_batchnorm()) {
    return false;
  }
  return policy.rules == nullptr || policy.rules->action_of(op) != CastAction::kToFloat32;
}

}  // namespace mezzo::amp
