// Weight files in the safetensors format: a JSON header of names, dtypes and shapes, then the data.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo::io {

using SafetensorsMetadata = std::map<std::string, std::string>;

// The contents of a file. A tensor with several names is stored once, under the name that comes
// first. The file's metadata maps the other names to that one, as save_model() of the Python
// package does. Here every name has an entry of its own, and these entries are the same tensor.
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of their data in the file
  SafetensorsMetadata metadata;      // `__metadata__` without such names; may be empty
};

// {"format": "pt"}: what PyTorch programs look for.
SafetensorsMetadata default_safetensors_metadata();

// Reads a file. Everything in the header is checked against the size of the file before memory is
// allocated. Throws FileError `[safetensors] FILE: what is wrong: the values. What to do.` if the
// file is missing or damaged, or has a tensor of a dtype or rank that mezzo does not support.
SafetensorsFile read_safetensors(const std::string& path);

// Like read_safetensors(), from memory; errors call the bytes `source`. The tensors are copies.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes,
                                  std::string_view source = "memory");

// Writes a file atomically (see AtomicFile). Tensors are sorted by dtype, from wide to narrow, then
// by name. Each is row-major whatever its layout, so that equal tensors give equal bytes. Entries
// that are the same tensor, not only equal ones, are written once. Empty metadata is left out.
// Throws ArgumentError if a tensor is undefined, or if a name occurs twice, is `__metadata__` or is
// not UTF-8; FileError if the file cannot be written.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = default_safetensors_metadata());

// Receives the bytes of a file in order, piece by piece.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// Passes the bytes that write_safetensors() would write to `write`.
void stream_safetensors(std::span<const NamedTensor> tensors, const ByteSink& write,
                        const SafetensorsMetadata& metadata = default_safetensors_metadata());

// Like write_safetensors(), into memory.
std::vector<std::byte> serialize_safetensors(
    std::span<const NamedTensor> tensors,
    const SafetensorsMetadata& metadata = default_safetensors_metadata());

}  // namespace mezzo::io
