#include "mezzo/amp/module_precision.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/exact_sums.h"

namespace mezzo::amp {
namespace {

// The network whose output this thread wants in the dtype that it was computed in; null for none.
thread_local const nn::Module* as_computed = nullptr;

// What a setting does to a module besides opening a region.
enum class HookScope : std::uint8_t {
  kNetwork,  // the results become f32
  kWhole,    // set by to_float(): the inputs are cast, and not the results
  kPart,     // nothing: the module's neighbours may go on in its dtype
};

// Opens a region with a module's policy around its forward pass.
class PolicyHook final : public nn::ForwardHook {
 public:
  // `named_by`: the network whose options or plan made this setting, if it is not the module's own.
  // Only its address matters.
  PolicyHook(Policy policy, HookScope scope, const nn::Module* named_by, bool exact)
      : policy_(std::move(policy)), scope_(scope), named_by_(named_by), exact_(exact) {}

  nn::Tensors around(nn::Module& module, const nn::Tensors& inputs,
                     const Forward& forward) override {
    const Autocast region(policy_);
    std::optional<ExactSums> direct;
    if (exact_) direct.emplace();
    if (scope_ == HookScope::kWhole) return forward(all_cast(inputs, policy_.lower));
    nn::Tensors results = forward(inputs);
    if (scope_ == HookScope::kPart || &module == as_computed) return results;
    // Widening does not restore the bits of 16-bit logits, but from here on the loss is all f32.
    return all_cast(std::move(results), DType::kF32);
  }

  bool is_precision() const override { return true; }

  const Policy& policy() const { return policy_; }
  const nn::Module* named_by() const { return named_by_; }

 private:
  // Indices, masks of bools and tensors that were left out stay as they are.
  static nn::Tensors all_cast(nn::Tensors tensors, DType dtype) {
    for (Tensor& tensor : tensors) {
      if (tensor.defined() && takes_part(tensor.dtype())) tensor = cast(tensor, dtype);
    }
    return tensors;
  }

  Policy policy_;
  HookScope scope_;
  const nn::Module* named_by_;
  bool exact_;
};

const PolicyHook* hook_of(const nn::Module& module) {
  for (const auto& hook : module.forward_hooks()) {
    if (const auto* found = dynamic_cast<const PolicyHook*>(hook.get())) return found;
  }
  return nullptr;
}

void set_hook(nn::Module& module, const Policy& policy, HookScope scope,
              const nn::Module* named_by = nullptr, bool exact = false) {
  auto hook = std::make_shared<PolicyHook>(policy, scope, named_by, exact);
  clear_policy(module);
  module.add_forward_hook(std::move(hook));
}

void remove_hook(nn::Module& module) {
  if (const PolicyHook* hook = hook_of(module)) module.remove_forward_hook(hook);
}

// Removes the settings that options of `net` made on modules below it.
void clear_named(nn::Module& net) {
  net.apply([&net](nn::Module& module) {
    const PolicyHook* hook = hook_of(module);
    if (hook != nullptr && hook->named_by() == &net) module.remove_forward_hook(hook);
  });
}

// Resolves lists of names: operations get a rule, modules a dtype.
class Names {
 public:
  // Throws ArgumentError for a name that is neither, and for entries in both lists.
  Names(nn::Module& net, const MixedPrecisionOptions& options, DType lower) : net_(net) {
    for (const std::string& name : options.keep_float32) add(name, DType::kF32);
    for (const std::string& name : options.lower) add(name, lower);
  }

  OpRules rules() const {
    OpRules rules;
    for (const Named& named : named_) {
      if (named.op == nullptr) continue;
      named.dtype == DType::kF32 ? rules.keep_float32(named.op->name) : rules.lower(named.op->name);
    }
    return rules;
  }

  bool lowers_operations() const {
    return std::ranges::any_of(named_, [](const Named& named) {
      return named.op != nullptr && named.dtype != DType::kF32;
    });
  }

  // Sets the dtypes of the named modules, replacing earlier settings of this network.
  void set_modules() const {
    clear_named(net_);
    for (const Named& named : named_) {
      if (named.module == nullptr) continue;
      set_hook(*named.module, {.level = Level::kO3, .lower = named.dtype}, HookScope::kWhole,
               &net_);
    }
  }

 private:
  struct Named {
    const OpDef* op;     // either an operation
    nn::Module* module;  // or a module
    DType dtype;
  };

  void add(const std::string& name, DType dtype) {
    const std::vector<nn::Module*> modules = net_.matching(name);
    const OpDef* op = find_op(name);
    check_arg(op != nullptr || !modules.empty(), "amp", "`", name,
              "` is neither an operation nor the path of a module. `mezzo ops` lists the "
              "operations, `mezzo plan` shows the paths");
    for (nn::Module* module : modules) add({nullptr, module, dtype});
    if (op != nullptr) add({op, nullptr, dtype});
  }

  void add(const Named& named) {
    for (const Named& other : named_) {
      const bool is_same = other.op == named.op && other.module == named.module;
      check_arg(!is_same || other.dtype == named.dtype, "amp", text_of(named),
                " is in both lists, to be kept in f32 and to be lowered. Put it in only one list. "
                "A module and something within it may be in different lists; the inner one wins");
    }
    named_.push_back(named);
  }

  std::string text_of(const Named& named) const {
    if (named.op != nullptr) return concat("the operation `", named.op->name, "`");
    for (const auto& entry : net_.named_modules()) {
      if (entry.module == named.module) return concat("the module `", entry.name, "`");
    }
    return "a module";
  }

  nn::Module& net_;
  std::vector<Named> named_;
};

Policy with_options(Policy policy, const Names& names, const MixedPrecisionOptions& options) {
  OpRules rules = names.rules();
  check_arg(
      policy.level != Level::kO0 || !names.lowers_operations(), "amp",
      "operations cannot be lowered at O0, which casts nothing. Use O1, auto, O2 or O3, or name "
      "modules");
  if (!rules.empty()) policy.rules = std::make_shared<const OpRules>(std::move(rules));
  if (options.keep_batchnorm_fp32.has_value()) {
    policy.keep_batchnorm_fp32 = options.keep_batchnorm_fp32;
  }
  return policy;
}

void check_lower(DType dtype) {
  check_arg(is_lower(dtype), "amp", "the lower dtype must be ", lower_dtypes(), ", it is ", dtype);
}

// e4m3 has bf16 beside it.
void check_level_dtype(DType dtype) {
  check_arg(is_lower(dtype) || dtype == DType::kE4m3, "amp", "the lower dtype must be ",
            lower_dtypes(), ", or e4m3 for products, it is ", dtype);
}

// A network's own eight bits: with layers that stay in 16, and histories that no other network has.
Policy for_network(nn::Module& net, Policy policy) {
  const std::shared_ptr<const EightBits>& eight = policy.eight_bits;
  if (eight != nullptr && eight->everywhere && eight->ops.empty()) {
    policy.eight_bits = eight_bits_of(net, *eight);
  }
  return policy;
}

}  // namespace

nn::Module& to_float(nn::Module& module, DType dtype) {
  check_arg(is_trainable(dtype), "to_float", "a module can compute in ", trainable_dtypes(),
            ", not in ", dtype);
  set_hook(module, {.level = Level::kO3, .lower = dtype}, HookScope::kWhole);
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
  const Names names(net, options, policy.lower);
  Policy result = for_network(net, with_options(std::move(policy), names, options));
  names.set_modules();
  return result;
}

nn::Module& auto_mixed_precision(nn::Module& net, Level level, DType dtype,
                                 const MixedPrecisionOptions& options) {
  // O0 itself lowers nothing, so the dtype is checked only if names are lowered.
  if (level != Level::kO0 || !options.lower.empty()) check_level_dtype(dtype);
  const Names names(net, options, dtype_beside(dtype));
  set_policy(net, with_options(policy_with(level, dtype), names, options));
  names.set_modules();
  return net;
}

nn::Module& auto_mixed_precision(nn::Module& net, std::string_view level, DType dtype,
                                 const MixedPrecisionOptions& options) {
  return auto_mixed_precision(net, level_named(level, "auto_mixed_precision"), dtype, options);
}

nn::Module& custom_mixed_precision(nn::Module& net, const OpLists& lists, DType dtype) {
  check_lower(dtype);
  const bool white = !lists.white_list.empty();
  check_arg(white != !lists.black_list.empty(), "custom_mixed_precision",
            "needs either a white list or a black list, not both");
  OpRules rules =
      white ? OpRules::white_list(lists.white_list) : OpRules::black_list(lists.black_list);
  set_policy(net, {.level = white ? Level::kO1 : Level::kO2,
                   .lower = dtype,
                   .rules = std::make_shared<const OpRules>(std::move(rules))});
  return net;
}

void set_policy(nn::Module& module, const Policy& policy, bool exact) {
  if (policy.level == Level::kO0) {
    clear_policy(module);
  } else {
    set_hook(module, for_network(module, policy), HookScope::kNetwork, nullptr, exact);
  }
}

void set_part_policy(nn::Module& net, nn::Module& module, const Policy& policy, bool exact) {
  set_hook(module, policy, HookScope::kPart, &net, exact);
}

std::optional<Policy> policy_of(const nn::Module& module) {
  const PolicyHook* hook = hook_of(module);
  return hook != nullptr ? std::optional(hook->policy()) : std::nullopt;
}

void clear_policy(nn::Module& module) {
  remove_hook(module);
  clear_named(module);
}

OutputAsComputed::OutputAsComputed(const nn::Module& net) : scope_(as_computed, &net) {}

}  // namespace mezzo::amp
