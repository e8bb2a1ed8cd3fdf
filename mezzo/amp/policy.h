// What a mixed-precision region does: a level, a lower dtype, and what the user says over them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/amp/level.h"

namespace mezzo::amp {

// What the user says about single operations, over their own rules and the level.
//
//   OpRules rules;
//   rules.keep_float32("add").lower("softmax");
//
// A fused operation that nothing was said about goes by what was said about the one that it begins
// with: `batch_norm_add_relu`, which ResNets call, by `batch_norm`. Rules for `add` and `relu` do
// not reach into it.
//
// All of these throw ArgumentError for the name of an operation that does not exist.
class OpRules {
 public:
  // Only these operations in 16 bits, all others in f32.
  static OpRules white_list(std::span<const std::string> ops);
  // All operations in 16 bits, only these in f32. What refuses 16 bits still does.
  static OpRules black_list(std::span<const std::string> ops);

  OpRules& keep_float32(std::string_view op) { return set(op, CastAction::kToFloat32); }
  OpRules& lower(std::string_view op) { return set(op, CastAction::kToLower); }
  // The operation takes what comes.
  OpRules& follow(std::string_view op) { return set(op, CastAction::kNone); }

  // What was said about the operation; empty if its own rule counts.
  std::optional<CastAction> action_of(const OpDef& op) const;
  bool empty() const { return actions_.empty() && !others_.has_value(); }
  // Those of the named operations about which nothing is decided where only these are called.
  std::vector<std::string> without_calls(std::span<const std::string> called) const;

 private:
  OpRules& set(std::string_view op, CastAction action);

  const CastAction* find(const OpDef* op) const;

  std::vector<std::pair<const OpDef*, CastAction>> actions_;
  std::optional<CastAction> others_;  // what is not named
};

struct Policy {
  Level level = Level::kAuto;
  // bf16 or f16; f32 only at O3, which then computes everything in f32.
  DType lower = DType::kBf16;
  // Scale and shift of normalisations in f32? If not they are rounded to the lower dtype first, as
  // casting the whole network would do; statistics are f32 in any case, for 16 bits cannot hold
  // them. By default false at O3 and true elsewhere. A normalisation that a rule keeps in f32 keeps
  // them as well.
  std::optional<bool> keep_batchnorm_fp32{};
  std::shared_ptr<const OpRules> rules{};  // null: none

  // What computes in 16 bits is called by that dtype, O0 is f32 whatever `lower` says.
  DType dtype() const { return level == Level::kO0 ? DType::kF32 : lower; }
  bool keeps_batchnorm() const { return keep_batchnorm_fp32.value_or(level != Level::kO3); }
  bool operator==(const Policy&) const = default;
};

// Only f32 and the two 16-bit types take part in mixed precision; f64 was chosen for a reason.
constexpr bool takes_part(DType dtype) { return dtype == DType::kF32 || is_lower(dtype); }

// What the policy does with the inputs of an operation: what the user said, else what the level
// says of the operation's class.
CastAction action_for(const Policy& policy, const OpDef& op);
// Throws the ArgumentError of an operation that the policy refuses, see CastAction::kRefuse.
[[noreturn]] void refuse(const Policy& policy, const OpDef& op);
// Whether the policy has the scale and shift of this operation rounded to the lower dtype.
bool rounds_parameters(const Policy& policy, const OpDef& op);

}  // namespace mezzo::amp
