// The precision of modules: set on a network or on parts of it, and stored with them.
//
// One rule decides between settings: the innermost explicit one wins, whatever the order of the
// calls. A layer's own setting overrides its network's, and a network's overrides the autocast
// region that it is called in. A region opened inside a layer's forward pass overrides them all.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/core/scoped.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// Computes everything in the module in `dtype` (f32 or a lower precision), like MindSpore's
// Cell.to_float: its floating-point inputs and the inputs of its operations, including parameters,
// are cast. Exceptions are inputs that no operation casts: biases of convolutions, scales and
// shifts of normalisations, and the tables of embeddings. The results are not cast. Parameters
// themselves stay f32. A second call replaces the first. Returns the module. Throws ArgumentError
// for other dtypes.
nn::Module& to_float(nn::Module& module, DType dtype);

// MindSpore's flags: the module computes in the dtype that is set to true. Throws ArgumentError
// unless exactly one is. To have a child in fp32 and the rest in fp16, set flags on two modules.
struct PrecisionFlags {
  bool fp16 = false;
  bool bf16 = false;
  bool fp32 = false;
};
nn::Module& add_flags_recursive(nn::Module& module, PrecisionFlags flags);

// User settings that override a level's rules.
struct MixedPrecisionOptions {
  // Names of operations (`softmax`) and paths of modules (`fc`, or patterns such as `layer4.*`,
  // where `*` matches anything, even dots) that compute in f32 or in 16 bits at any level. The name
  // of a module replaces a setting of that module; nothing may be in both lists. OpRules (policy.h)
  // says which names cover fused operations.
  std::vector<std::string> keep_float32{};
  std::vector<std::string> lower{};
  std::optional<bool> keep_batchnorm_fp32{};  // see Policy
};

// From now on the network computes at that level whenever it is called, and returns f32 results, so
// that the loss is f32, too. Another call replaces the effect of the first, also on the modules
// that its options named. Settings made directly on parts of the network stay and win. O0 removes
// the network's setting; modules that the options name are still set. Returns the network. Throws
// ArgumentError for a dtype that is no lower precision (not checked at O0, where nothing is
// lowered), for a name that is neither an operation nor the path of a module, for operations and
// modules in both lists, and for operations to lower at O0; nothing has changed then.
nn::Module& auto_mixed_precision(nn::Module& net, Level level, DType dtype = DType::kF16,
                                 const MixedPrecisionOptions& options = {});
// Takes the level's name; throws ArgumentError if it is unknown, listing the valid ones.
nn::Module& auto_mixed_precision(nn::Module& net, std::string_view level, DType dtype = DType::kF16,
                                 const MixedPrecisionOptions& options = {});

// The network computes by the user's own list of operations: only those in 16 bits (white list), or
// all but those (black list). Throws ArgumentError unless exactly one list is given, and for
// unknown names.
struct OpLists {
  std::vector<std::string> white_list{};
  std::vector<std::string> black_list{};
};
nn::Module& custom_mixed_precision(nn::Module& net, const OpLists& lists,
                                   DType dtype = DType::kF16);

// The module computes under the policy whenever it is called, and returns an f32 output. First
// removes what clear_policy() removes; at O0 that is all.
// `exact`: as in set_part_policy().
void set_policy(nn::Module& module, const Policy& policy, bool exact = false);
// For plans (precision_plan.h): a module below `net` computes under the policy, and its results
// stay in the dtype that they were computed in. `exact`: convolutions are computed by direct sums
// (ops/exact_sums.h). The setting replaces one of the module's own, counts as
// one that options of `net` made, and is removed with those.
void set_part_policy(nn::Module& net, nn::Module& module, const Policy& policy, bool exact = false);
// The setting of this module itself; empty if there is none.
std::optional<Policy> policy_of(const nn::Module& module);
// Removes the setting of this module, and those that its options made on modules below it.
void clear_policy(nn::Module& module);

// Applies `options`: returns the policy with rules for the named operations, and sets the named
// modules, replacing settings from earlier options of this network. Throws ArgumentError, before
// anything is set, like auto_mixed_precision().
Policy apply_options(nn::Module& net, Policy policy, const MixedPrecisionOptions& options);

// While it exists, this thread gets the output of that network in the dtype that it was computed
// in, where a level would widen it to f32. For losses that read 16 bits.
class OutputAsComputed {
 public:
  explicit OutputAsComputed(const nn::Module& net);

 private:
  Scoped<const nn::Module*> scope_;
};

}  // namespace mezzo::amp
