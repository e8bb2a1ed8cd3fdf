// Tensors with several names in safetensors files. A tensor is written once, under the name that
// comes first. The metadata maps its other names to that one, as save_model() of the format's own
// Python package does. User metadata that would look the same is marked by a further key.
#pragma once

#include <span>
#include <vector>

#include "mezzo/io/safetensors.h"

namespace mezzo::io {

struct NamesToWrite {
  std::vector<bool> is_left_out;  // for each tensor
  SafetensorsMetadata metadata;   // with the names left out
};

// The user's own metadata stays as it is. A name that is also a key of it is written as a tensor of
// its own. So is the name `format`, which cannot be a name in the metadata. An entry whose value
// happens to be the name of a tensor gets a mark, `mezzo.text:KEY`, which says that its key is not
// a name.
NamesToWrite names_to_write(std::span<const NamedTensor> tensors,
                            const SafetensorsMetadata& metadata);

// Moves the names in a file's metadata to its tensors, after the one that each refers to, and
// removes the marks.
void restore_names(SafetensorsFile& file);

}  // namespace mezzo::io
