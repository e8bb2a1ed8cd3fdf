// Inputs of modules that may be left out.
#pragma once

#include <cstddef>

#include "mezzo/nn/forward_hook.h"

namespace mezzo::nn {

// Input i of a module; undefined if there are fewer.
inline Tensor input_or_none(const Tensors& inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : Tensor();
}

}  // namespace mezzo::nn
