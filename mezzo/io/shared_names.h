// Tensors with several names in safetensors files: written once, under the name that comes first,
// and the other names in the metadata with that name as their value. So does save_model() of the
// format's own Python package. Metadata of the caller's own that would look the same is marked by a
// further key.
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
// own, and so is one called `format`, which is no name in metadata. An entry whose value happens to
// be the name of a tensor gets a mark, `mezzo.text:KEY`, that says that its key is none.
NamesToWrite names_to_write(std::span<const NamedTensor> tensors,
                            const SafetensorsMetadata& metadata);

// Moves the names that stand in a file's metadata to its tensors, behind the one that each stands
// for, and takes the marks away.
void restore_names(SafetensorsFile& file);

}  // namespace mezzo::io
