#include "mezzo/amp/forward.h"

#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {
namespace {

Tensor only_result(nn::Module& net, const nn::Tensors& inputs) {
  if (inputs.size() == 1) return net(inputs.front());
  nn::Tensors results = net(inputs);
  check_arg(results.size() == 1, "loss", "takes one output, and the network has ", results.size(),
            " results. Use a LossOfBatch");
  return std::move(results.front());
}

}  // namespace

Tensor forward(nn::Module& net, const Tensor& input, const std::optional<Policy>& policy) {
  return forward_for(nullptr, net, input, policy).astype(DType::kF32);
}

nn::Tensors forward(nn::Module& net, const nn::Tensors& inputs,
                    const std::optional<Policy>& policy) {
  std::optional<Autocast> region;
  if (policy.has_value()) region.emplace(*policy);
  nn::Tensors results = net(inputs);
  for (Tensor& result : results) {
    const bool widens = result.defined() && takes_part(result.dtype());
    if (widens) result = result.astype(DType::kF32);
  }
  return results;
}

Tensor forward_for(const LossFunction& loss, nn::Module& net, const nn::Tensors& inputs,
                   const std::optional<Policy>& policy) {
  std::optional<Autocast> region;
  if (policy.has_value()) region.emplace(*policy);
  std::optional<OutputAsComputed> as_computed;
  if (loss.reads_16_bits()) as_computed.emplace(net);
  const Tensor output = only_result(net, inputs);
  // Whether the output is in 16 bits is not checked: graph mode may not have decided it yet.
  const bool is_read = loss.reads_16_bits() && output.dtype() != DType::kF64;
  return is_read ? output : output.astype(DType::kF32);
}

Tensor forward_for(const LossFunction& loss, nn::Module& net, const Tensor& input,
                   const std::optional<Policy>& policy) {
  return forward_for(loss, net, nn::Tensors{input}, policy);
}

}  // namespace mezzo::amp
