// All names of a network's parameters, also of those that several modules share.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct ParameterNames {
  std::vector<NamedTensor> entries;    // in the order of state()
  std::vector<std::size_t> tensor_of;  // of each: one number for all names of a tensor
};

// A tensor has several names here where first_names() says that it has.
ParameterNames parameter_names(const Module& net);

}  // namespace mezzo::nn
