// The forward pass of a network under a policy, as training steps and evaluations run it.
#pragma once

#include <optional>

#include "mezzo/amp/loss_function.h"
#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// The network's output in f32, computed under the policy, or in the caller's region if there is
// none. Compute the loss outside of the region: it is in f32 at every level.
Tensor forward(nn::Module& net, const Tensor& input, const std::optional<Policy>& policy);
// The same of several inputs and results; results that are neither f32 nor in 16 bits stay as they
// are.
nn::Tensors forward(nn::Module& net, const nn::Tensors& inputs,
                    const std::optional<Policy>& policy);
// The only result of a network of any number of inputs. Like forward(), for a loss that may read
// 16-bit outputs as they are. Throws ArgumentError if there are several results.
Tensor forward_for(const LossFunction& loss, nn::Module& net, const nn::Tensors& inputs,
                   const std::optional<Policy>& policy);
Tensor forward_for(const LossFunction& loss, nn::Module& net, const Tensor& input,
                   const std::optional<Policy>& policy);

}  // namespace mezzo::amp
