// All names of a network's parameters, including the names of shared ones.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct ParameterNames {
  std::vector<NamedTensor> entries;    // in the order of state()
  std::vector<std::size_t> tensor_of;  // for each entry, one number for all names of a tensor
};

// Two names belong to the same tensor if first_names() says so.
ParameterNames parameter_names(const Module& net);

}  // namespace mezzo::nn
