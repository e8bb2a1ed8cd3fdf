#include "mezzo/models/weight_files.h"

#include <algorithm>
#include <utility>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

std::vector<NamedTensor> from_weight_file(const nn::Module& net, std::vector<NamedTensor> tensors) {
  const auto* files = dynamic_cast<const WeightFiles*>(&net);
  return files != nullptr ? files->from_file(std::move(tensors)) : tensors;
}

std::vector<NamedTensor> to_weight_file(const nn::Module& net) {
  const auto* files = dynamic_cast<const WeightFiles*>(&net);
  return files != nullptr ? files->to_file() : net.state();
}

void remove_prefix(std::vector<NamedTensor>& tensors, std::string_view prefix) {
  for (NamedTensor& entry : tensors) {
    if (entry.name.starts_with(prefix)) entry.name.erase(0, prefix.size());
  }
}

const NamedTensor* find_tensor(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found != tensors.end() ? &*found : nullptr;
}

Tensor transposed_copy(const Tensor& tensor) {
  if (!tensor.defined() || tensor.rank() != 2) return tensor;
  const NoGrad no_grad;
  return contiguous(transpose(tensor));
}

}  // namespace mezzo::models
