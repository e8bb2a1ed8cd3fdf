// A tensor and its name: an entry of a module's state, of a weight file or of a report.
#pragma once

#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo {

struct NamedTensor {
  std::string name;  // dotted, like PyTorch's: `layer1.0.conv1.weight`
  Tensor tensor;
};

}  // namespace mezzo
