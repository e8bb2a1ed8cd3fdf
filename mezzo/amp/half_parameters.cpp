#include "mezzo/amp/half_parameters.h"

#include <unordered_map>
#include <unordered_set>

#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/group_norm.h"
#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/range_warning.h"
#include "mezzo/nn/rms_norm.h"
#include "mezzo/ops/cast.h"

namespace mezzo::amp {
namespace {

using Arrays = std::unordered_set<const TensorImpl*>;

bool is_normalization(const nn::Module& module) {
  return dynamic_cast<const nn::BatchNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::GroupNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::LayerNorm*>(&module) != nullptr ||
         dynamic_cast<const nn::RmsNorm*>(&module) != nullptr;
}

// The parameters of normalisation layers, which may be shared with others.
Arrays normalization_parameters(nn::Module& module) {
  Arrays result;
  module.apply([&](nn::Module& part) {
    if (!is_normalization(part)) return;
    for (const nn::Module::Member& member : part.own_parameters()) {
      result.insert(member.tensor->impl());
    }
  });
  return result;
}

// A new leaf with the values of a parameter.
Tensor converted(const Tensor& parameter, DType dtype) {
  return cast(parameter.detach(), dtype).set_requires_grad(parameter.requires_grad());
}

// Replaces every parameter except `kept` by its conversion; shared parameters stay shared.
void convert(nn::Module& module, DType dtype, const Arrays& kept) {
  // Keeps the old tensors alive until the end, so that no new one gets the address of an old one.
  std::unordered_map<const TensorImpl*, std::pair<Tensor, Tensor>> replaced;
  module.apply([&](nn::Module& part) {
    for (const nn::Module::Member& member : part.own_parameters()) {
      Tensor& parameter = *member.tensor;
      const bool may_change = is_trainable(parameter.dtype());
      if (!may_change || parameter.dtype() == dtype || kept.contains(parameter.impl())) continue;
      const auto found = replaced.find(parameter.impl());
      const Tensor old = parameter;
      parameter = found != replaced.end() ? found->second.second : converted(old, dtype);
      nn::warn_if_beyond_range(member.name, parameter);
      replaced.emplace(old.impl(), std::pair(old, parameter));
    }
  });
}

}  // namespace

nn::Module& half_parameters(nn::Module& module, DType dtype, const HalfParametersOptions& options) {
  check_arg(is_lower(dtype), "half_parameters", "parameters can be made ", lower_dtypes(), ", not ",
            dtype);
  module.zero_grad();
  convert(module, dtype, options.keep_batchnorm_fp32 ? normalization_parameters(module) : Arrays());
  return module;
}

nn::Module& full_parameters(nn::Module& module) {
  module.zero_grad();
  convert(module, DType::kF32, {});
  return module;
}

}  // namespace mezzo::amp
