// Tensors with several names in safetensors files: written once, under the name that comes first,
// and the other names in the metadata with that name as their value. So does save_model() of the
// format's own Python package.
#pragma once

#include <span>
#include <vector>

#include "mezzo/io/safetensors.h"

namespace mezzo::io {

struct NamesToWrite {
  std::vector<bool> is_left_out;  // of each tensor
  SafetensorsMetadata metadata;   // with the names that are left out
};

// Metadata of the caller's own stays: a name that is a key of it is written like a tensor of its
// own.
NamesToWrite names_to_write(std::span<const NamedTensor> tensors,
                            const SafetensorsMetadata& metadata);

// Moves the names that stand in a file's metadata to its tensors, behind the one that each stands
// for.
void restore_names(SafetensorsFile& file);

}  // namespace mezzo::io
