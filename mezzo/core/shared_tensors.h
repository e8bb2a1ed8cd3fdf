// Finds tensors that have several names, for example weights that two modules share.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo {

// For each entry, the index of the first name of its tensor, in the byte order of names. Two
// entries name the same tensor if they have the same elements in the same memory and the same
// shape. An entry whose tensor has no other name has its own index, and so does an empty tensor.
std::vector<std::size_t> first_names(std::span<const NamedTensor> tensors);

}  // namespace mezzo
