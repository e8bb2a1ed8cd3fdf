// A tensor and what it is called: an entry of a module's state, of a weight file, of a report.
#pragma once

#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo {

struct NamedTensor {
  std::string name;  // dotted, as PyTorch's: `layer1.0.conv1.weight`
  Tensor tensor;
};

}  // namespace mezzo
