#include "mezzo/amp/module_precision.h"

#include <memory>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/registry.h"

namespace mezzo::amp {
namespace {

bool is_castable(const Tensor& x) { return x.dtype() == DType::kF32 || is_lower(x.dtype()); }

// Opens the region of a module's policy around its forward pass.
class PolicyHook final : public nn::ForwardHook {
 public:
  // `whole`: the module is one of to_float(), whose input is cast and whose output is not.
  PolicyHook(Policy policy, bool whole) : policy_(std::move(policy)), whole_(whole) {}

  Tensor around(nn::Module&, const Tensor& x, const Forward& forward) override {
    const Autocast region(policy_);
    if (whole_) return forward(is_castable(x) ? cast(x, policy_.lower) : x);
    const Tensor y = forward(x);
    // The loss of 16-bit logits is only as good as their 8 or 11 bits; from here on it is all f32.
    return is_castable(y) ? cast(y, DType::kF32) : y;
  }

  const Policy& policy() const { return policy_; }

 private:
  Policy policy_;
  bool whole_;
};

const PolicyHook* hook_of(const nn::Module& module) {
  for (const auto& hook : module.forward_hooks()) {
    if (const auto* found = dynamic_cast<const PolicyHook*>(hook.get())) return found;
  }
  return nullptr;
}

void set_hook(nn::Module& module, const Policy& policy, bool whole) {
  auto hook = std::make_shared<PolicyHook>(policy, whole);
  clear_policy(module);
  module.add_forward_hook(std::move(hook));
}

// What a list of names says: operations get a rule, modules a dtype.
class Names {
 public:
  Names(nn::Module& net, OpRules& rules) : net_(net), rules_(rules) {}

  void add(const std::vector<std::string>& names, DType dtype) {
    for (const std::string& name : names) add(name, dtype);
  }
  void set_modules() const {
    for (const auto& [module, dtype] : modules_) to_float(*module, dtype);
  }

 private:
  void add(const std::string& name, DType dtype) {
    const std::vector<nn::Module*> modules = net_.matching(name);
    for (nn::Module* module : modules) modules_.emplace_back(module, dtype);
    if (find_op(name) != nullptr) {
      dtype == DType::kF32 ? rules_.keep_float32(name) : rules_.lower(name);
    } else {
      check_arg(!modules.empty(), "amp", "`", name,
                "` is neither an operation nor the path of a module. `mezzo ops` lists the "
                "operations, `mezzo plan` shows the paths");
    }
  }

  nn::Module& net_;
  OpRules& rules_;
  std::vector<std::pair<nn::Module*, DType>> modules_;
};

void check_lower(DType dtype) {
  check_arg(is_lower(dtype), "amp", "the lower dtype must be bf16 or f16, it is ", dtype);
}

}  // namespace

nn::Module& to_float(nn::Module& module, DType dtype) {
  check_arg(dtype == DType::kF32 || is_lower(dtype), "to_float",
            "a module computes in f32, bf16 or f16, not in ", dtype);
  set_hook(module, {.level = Level::kO3, .lower = dtype}, true);
  return module;
}

nn::Module& add_flags_recursive(nn::Module& module, PrecisionFlags flags) {
  const int set = int{flags.fp16} + int{flags.bf16} + int{flags.fp32};
  check_arg(set == 1, "add_flags_recursive", "one of fp16, bf16 and fp32 must be true, ", set,
            " are");
  if (flags.fp32) return to_float(module, DType::kF32);
  return to_float(module, flags.fp16 ? DType::kF16 : DType::kBf16);
}

Policy apply_options(nn::Module& net, Policy policy, const MixedPrecisionOptions& options) {
  OpRules rules;
  Names names(net, rules);
  names.add(options.keep_float32, DType::kF32);
  names.add(options.lower, policy.lower);
  names.set_modules();
  if (!rules.empty()) policy.rules = std::make_shared<const OpRules>(std::move(rules));
  if (options.keep_batchnorm_fp32.has_value()) {
    policy.keep_batchnorm_fp32 = options.keep_batchnorm_fp32;
  }
  return policy;
}

nn::Module& auto_mixed_precision(nn::Module& net, Level level, DType dtype,
                                 const MixedPrecisionOptions& options) {
  check_lower(dtype);
  set_policy(net, apply_options(net, {.level = level, .lower = dtype}, options));
  return net;
}

nn::Module& auto_mixed_precision(nn::Module& net, std::string_view level, DType dtype,
                                 const MixedPrecisionOptions& options) {
  const std::optional<Level> parsed = parse_level(level);
  check_arg(parsed.has_value(), "auto_mixed_precision", "unknown level `", level,
            "`. There are O0, O1, auto, O2 and O3");
  return auto_mixed_precision(net, *parsed, dtype, options);
}

nn::Module& custom_mixed_precision(nn::Module& net, const OpLists& lists, DType dtype) {
  check_lower(dtype);
  const bool white = !lists.white_list.empty();
  check_arg(white != !lists.black_list.empty(), "custom_mixed_precision",
            "needs either a white list or a black list, not both and not none");
  OpRules rules =
      white ? OpRules::white_list(lists.white_list) : OpRules::black_list(lists.black_list);
  set_policy(net, {.level = white ? Level::kO1 : Level::kO2,
                   .lower = dtype,
                   .rules = std::make_shared<const OpRules>(std::move(rules))});
  return net;
}

void set_policy(nn::Module& module, const Policy& policy) {
  if (policy.level == Level::kO0) {
    clear_policy(module);
  } else {
    set_hook(module, policy, false);
  }
}

std::optional<Policy> policy_of(const nn::Module& module) {
  const PolicyHook* hook = hook_of(module);
  return hook != nullptr ? std::optional(hook->policy()) : std::nullopt;
}

void clear_policy(nn::Module& module) {
  if (const PolicyHook* hook = hook_of(module)) module.remove_forward_hook(hook);
}

}  // namespace mezzo::amp
