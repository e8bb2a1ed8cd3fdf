// Weights in the layout of other programs' files.
#pragma once

#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::models {

// The interface of networks whose files differ from state(): in names, in matrices that are stored
// transposed, or in tensors that are no parameters.
class WeightFiles {
 public:
  virtual ~WeightFiles() = default;

  // The tensors of a file as load_state() takes them. A state as it is, such as a checkpoint's, is
  // returned unchanged. Nothing is checked here but what decides about the layout: load_state()
  // reports what is missing, unexpected or of another shape.
  virtual std::vector<NamedTensor> from_file(std::vector<NamedTensor> tensors) const = 0;
  // What a file of this network contains.
  virtual std::vector<NamedTensor> to_file() const = 0;
};

// from_file() of networks that have it; for others, the tensors as they are.
std::vector<NamedTensor> from_weight_file(const nn::Module& net, std::vector<NamedTensor> tensors);
// to_file() of networks that have it, state() of others.
std::vector<NamedTensor> to_weight_file(const nn::Module& net);

// For implementations of the interface.

// Removes `prefix` from the names that begin with it.
void remove_prefix(std::vector<NamedTensor>& tensors, std::string_view prefix);
// The tensor of that name, or null.
const NamedTensor* find_tensor(const std::vector<NamedTensor>& tensors, std::string_view name);
// A copy of a matrix with its axes exchanged, without history; other tensors as they are.
Tensor transposed_copy(const Tensor& tensor);

}  // namespace mezzo::models
