// The precision of modules: set on a network or on parts of it, and kept with them.
//
// One rule decides between settings: the innermost explicit one wins, whatever the order of the
// calls. A layer's own setting counts over its network's, a network's over the autocast region that
// it is called in, and a region opened inside a layer's forward pass over them all.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/core/scoped.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// Everything in the module is computed in `dtype` (f32, bf16 or f16): its input and the inputs of
// its operations, parameters among them, are cast, as by MindSpore's Cell.to_float; but for inputs
// that no operation casts, as biases of convolutions, scales and shifts of normalisations, and the
// tables of embeddings. The output is what comes out. Parameters themselves stay f32. A second call
// replaces the first. Gives the module back. Throws ArgumentError for other dtypes.
nn::Module& to_float(nn::Module& module, DType dtype);

// MindSpore's flags: what is set to true is what the module computes in. Throws ArgumentError
// unless exactly one is; that is how "a child in fp32, the rest in fp16" is said on two modules.
struct PrecisionFlags {
  bool fp16 = false;
  bool bf16 = false;
  bool fp32 = false;
};
nn::Module& add_flags_recursive(nn::Module& module, PrecisionFlags flags);

// What a user says over a level's rules.
struct MixedPrecisionOptions {
  // Names of operations (`softmax`) and paths of modules (`fc`, or patterns: `layer4.*`, where `*`
  // stands for anything, dots too) that are computed in f32 or in 16 bits whatever the level says.
  // A module's name replaces what was set on that module; nothing may be in both lists. OpRules
  // (policy.h) says which names cover fused operations.
  std::vector<std::string> keep_float32{};
  std::vector<std::string> lower{};
  std::optional<bool> keep_batchnorm_fp32{};  // see Policy
};

// From now on the network computes at that level whenever it is called, and gives an f32 output, so
// that the loss is f32 too. Applying it again replaces what it did before, also on the modules that
// its options named; settings that parts of the network got by themselves stay and win. At O0 it
// removes the network's setting, and modules that the options name are set. Gives the network back.
// Throws ArgumentError for a dtype other than bf16 and f16 (at O0, where nothing is lowered, it
// says nothing and may be any), for a name that is neither an operation nor the path of a module,
// for operations and modules in both lists, and for operations to lower at O0; nothing has changed
// then.
nn::Module& auto_mixed_precision(nn::Module& net, Level level, DType dtype = DType::kF16,
                                 const MixedPrecisionOptions& options = {});
// The same for a level's name; throws ArgumentError if it is unknown, naming those that exist.
nn::Module& auto_mixed_precision(nn::Module& net, std::string_view level, DType dtype = DType::kF16,
                                 const MixedPrecisionOptions& options = {});

// The network computes by the user's own list of operations: only those in 16 bits (white), or all
// but those (black). Throws ArgumentError unless exactly one list is given, and for unknown names.
struct OpLists {
  std::vector<std::string> white_list{};
  std::vector<std::string> black_list{};
};
nn::Module& custom_mixed_precision(nn::Module& net, const OpLists& lists,
                                   DType dtype = DType::kF16);

// Computes under the policy whenever the module is called, with an f32 output. Replaces what
// clear_policy() takes away, which at O0 is all that it does.
void set_policy(nn::Module& module, const Policy& policy);
// What was set on this very module; empty if nothing was.
std::optional<Policy> policy_of(const nn::Module& module);
// Takes the setting of this very module away, and those that its options made of modules below.
void clear_policy(nn::Module& module);

// The policy with the operations among the options' names; the settings of the modules among them
// are made, in the place of those that options of this network made before. Throws ArgumentError,
// before anything is set, like auto_mixed_precision().
Policy apply_options(nn::Module& net, Policy policy, const MixedPrecisionOptions& options);

// While it exists, this thread gets the output of that network in the dtype that it was computed in
// where a level would widen it to f32: for a loss that reads it as it is.
class OutputAsComputed {
 public:
  explicit OutputAsComputed(const nn::Module& net);

 private:
  Scoped<const nn::Module*> scope_;
};

}  // namespace mezzo::amp
