// Tensors that have several names, as weights have that two modules share.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo {

// For each entry the index of the one whose name comes first by its bytes among those of the same
// tensor: the same elements of the same memory, in the same shape. An entry that shares its tensor
// with no other has its own index, and so has an empty one.
std::vector<std::size_t> first_names(std::span<const NamedTensor> tensors);

}  // namespace mezzo
