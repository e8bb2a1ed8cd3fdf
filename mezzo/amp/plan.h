// The precision plan of a network: what runs in which precision, why, and which casts that takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// A cast that an operation's rule asked for.
struct PlannedCast {
  std::size_t input = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;
  bool parameter = false;  // of a parameter: made once per change of it
  bool shared = false;     // that copy was made before and costs nothing
};

// The rule that a call under the policy is subject to: the operation's class at the lower dtype;
// `user` for rules of the user and modules that are set to f32, and `none` without a policy.
const char* rule_name(const Policy* policy, const OpDef& op);

// One call of an operation.
struct PlannedOp {
  std::string path{};  // of the module that called it; empty for the network itself
  std::string op{};
  DType dtype = DType::kF32;  // that it computes in
  std::string rule{};         // rule_name()
  std::string reason{};
  std::vector<PlannedCast> casts{};
};

struct Plan {
  std::vector<PlannedOp> ops;      // in the order of the calls
  std::int64_t casts = 0;          // made in the forward pass
  std::int64_t shared_casts = 0;   // saved: the 16-bit copy of a parameter was there already
  std::int64_t avoided_casts = 0;  // saved: the input came in the right 16-bit dtype already

  std::int64_t count(DType dtype) const;  // of operations that compute in it
  // Operations that rules of the policy name and that are not called: the rules change nothing. A
  // ResNet, say, does not call `add`, but `batch_norm_add_relu`.
  std::vector<std::string> named_without_calls(const Policy& policy) const;
};

// Runs `forward` once, on this thread and without recording, and notes every call. Views, which
// compute nothing, are left out.
Plan make_plan(const std::function<void()>& forward);

// The plan of a network and of the cross entropy of its output, for an input of that shape under
// the policy; the backward pass runs in the dtypes of the forward pass. The network is run in
// inference mode, which leaves its statistics alone.
Plan make_plan(nn::Module& net, const Shape& input, const Policy& policy);
// The same for an input such as numbers of tokens, where zeros in f32 would not do. Its elements
// decide nothing.
Plan make_plan(nn::Module& net, const Tensor& input, const Policy& policy);

// The casts of an operation in words: `x0 f32>bf16, x1 f32>bf16 (parameter, shared)`.
std::string describe_casts(const PlannedOp& op);

}  // namespace mezzo::amp
