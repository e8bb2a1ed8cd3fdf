// The policy of a mixed-precision region: a level, a lower dtype, and the user's rules.
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

// The user's rules for single operations, which override the operations' own rules and the level.
//
//   OpRules rules;
//   rules.keep_float32("add").lower("softmax");
//
// A fused operation without a rule follows the rule of its first part: `batch_norm_add_relu`, which
// ResNets call, follows `batch_norm`. Rules for `add` and `relu` do not affect it.
//
// All functions here throw ArgumentError for the name of an operation that does not exist.
class OpRules {
 public:
  // Computes only these operations in 16 bits, all others in f32.
  static OpRules white_list(std::span<const std::string> ops);
  // Computes only these operations in f32, all others in 16 bits. Operations that refuse 16 bits
  // still do.
  static OpRules black_list(std::span<const std::string> ops);

  OpRules& keep_float32(std::string_view op) { return set(op, CastAction::kToFloat32); }
  OpRules& lower(std::string_view op) { return set(op, CastAction::kToLower); }
  // The operation takes its inputs in any dtype.
  OpRules& follow(std::string_view op) { return set(op, CastAction::kNone); }

  // The rule for the operation; empty if its own rule applies.
  std::optional<CastAction> action_of(const OpDef& op) const;
  bool empty() const { return actions_.empty() && !others_.has_value(); }
  // The named operations whose rules have no effect if only `called` are called.
  std::vector<std::string> without_calls(std::span<const std::string> called) const;

 private:
  OpRules& set(std::string_view op, CastAction action);

  const CastAction* find(const OpDef* op) const;

  std::vector<std::pair<const OpDef*, CastAction>> actions_;
  std::optional<CastAction> others_;  // for operations that are not named
};

struct EightBits;

struct Policy {
  Level level = Level::kAuto;
  // A lower precision; f32 only at O3, which then computes everything in f32.
  DType lower = DType::kBf16;
  // Whether scale and shift of normalisations stay in f32. If not, they are rounded to the lower
  // dtype first, as if the whole network were cast. Statistics are f32 in any case, since 16 bits
  // cannot hold them. The default is false at O3 and true elsewhere. A normalisation that a rule
  // keeps in f32 keeps them in f32, too.
  std::optional<bool> keep_batchnorm_fp32{};
  std::shared_ptr<const OpRules> rules{};  // null: none
  // The products that have eight bits (amp/eight_bits.h); the others have `lower`. Null: none.
  std::shared_ptr<const EightBits> eight_bits{};

  // The dtype that names the precision: that of eight bits, `lower`, or f32 at O0.
  DType named_dtype() const;
  // The dtype of activations and gradients: `lower`, or f32 at O0.
  DType dtype() const { return level == Level::kO0 ? DType::kF32 : lower; }
  bool keeps_batchnorm() const { return keep_batchnorm_fp32.value_or(level != Level::kO3); }
  bool operator==(const Policy&) const = default;
};

// Only f32 and the two 16-bit types take part in mixed precision; f64 is an explicit choice.
constexpr bool takes_part(DType dtype) { return is_trainable(dtype); }

// The action for the inputs of an operation: the user's rule, else the level's action for the
// operation's class.
CastAction action_for(const Policy& policy, const OpDef& op);
// Throws the ArgumentError of an operation that the policy refuses: see CastAction::kRefuse.
[[noreturn]] void refuse(const Policy& policy, const OpDef& op);
// Whether the policy rounds scale and shift of this operation to the lower dtype.
bool rounds_parameters(const Policy& policy, const OpDef& op);

}  // namespace mezzo::amp
