// The precision plan of a network: the precision of each operation, the reason, and the casts that
// it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/loss_of_batch.h"
#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// A cast that an operation's rule requires.
struct PlannedCast {
  std::size_t input = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;
  bool parameter = false;  // of a parameter: made once per change of it
  bool shared = false;     // the copy already existed and costs nothing
};

// The rule that applies to a call under the policy: the operation's class for the lower dtype,
// `user` for the user's rules and for modules that are set to f32, and `none` without a policy.
const char* rule_name(const Policy* policy, const OpDef& op);

// One call of an operation.
struct PlannedOp {
  std::string path{};  // path of the calling module; empty for the network itself
  std::string op{};
  DType dtype = DType::kF32;  // dtype of the computation
  std::string rule{};         // rule_name()
  std::string reason{};
  std::vector<PlannedCast> casts{};
};

struct Plan {
  std::vector<PlannedOp> ops;      // in the order of the calls
  std::int64_t casts = 0;          // made in the forward pass
  std::int64_t shared_casts = 0;   // saved: the 16-bit copy of a parameter already existed
  std::int64_t avoided_casts = 0;  // saved: the input already had the right 16-bit dtype

  std::int64_t count(DType dtype) const;  // number of operations that compute in it
  // Operations that the policy's rules name but that are not called, so that the rules have no
  // effect. For example, a ResNet does not call `add` but `batch_norm_add_relu`.
  std::vector<std::string> named_without_calls(const Policy& policy) const;
};

// Runs `forward` once, on this thread and without recording, and notes every call except views,
// which compute nothing.
Plan make_plan(const std::function<void()>& forward);

// The plan of a network and the cross entropy of its output, for an input of that shape under the
// policy; the backward pass runs in the dtypes of the forward pass. The network is run in inference
// mode, so its statistics do not change.
Plan make_plan(nn::Module& net, const Shape& input, const Policy& policy);
// Takes an input tensor, for networks that cannot read f32 zeros, such as those that read token
// indices. The values of its elements do not affect the plan.
Plan make_plan(nn::Module& net, const Tensor& input, const Policy& policy);
// The plan of a network of several inputs and results, and of a loss, for a batch. Throws
// ArgumentError if the loss is null.
Plan make_plan(nn::Module& net, const LossOfBatch& loss, const Batch& batch, const Policy& policy);

// The casts of an operation as text: `x0 f32>bf16, x1 f32>bf16 (parameter, shared)`.
std::string describe_casts(const PlannedOp& op);

}  // namespace mezzo::amp
