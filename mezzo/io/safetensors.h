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

// A tensor that has several names lies in a file once, under the name that comes first; the others
// are in the metadata of the file, with that name as their value, as save_model() of the Python
// package has them. Here they are among the tensors, and the same tensor.
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of their data in the file
  SafetensorsMetadata metadata;      // `__metadata__` but for such names; empty if there is none
};

// {"format": "pt"}: what PyTorch programs look for.
SafetensorsMetadata default_safetensors_metadata();

// Reads a file. Everything the header says is checked against the size of the file before memory is
// taken for it. Throws FileError `[safetensors] FILE: what is wrong: the values. What to do.` if
// the file is missing, damaged, or has a tensor of a dtype or rank that mezzo does not have.
SafetensorsFile read_safetensors(const std::string& path);

// The same from memory; `source` stands for the file in errors. The tensors are copies.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes,
                                  std::string_view source = "memory");

// Writes a file atomically (see AtomicFile): dtypes from wide to narrow, then by name, each tensor
// row-major whatever its layout, so that equal tensors give equal bytes. Entries that are the same
// tensor, not only equal ones, are written once. Empty metadata is left out. Throws ArgumentError
// if a tensor is undefined, or if a name occurs twice, is `__metadata__` or is not UTF-8; FileError
// if the file cannot be written.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = default_safetensors_metadata());

// Receives the bytes of a file in order, piece by piece.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// The same bytes into `write`.
void stream_safetensors(std::span<const NamedTensor> tensors, const ByteSink& write,
                        const SafetensorsMetadata& metadata = default_safetensors_metadata());

// The same into memory.
std::vector<std::byte> serialize_safetensors(
    std::span<const NamedTensor> tensors,
    const SafetensorsMetadata& metadata = default_safetensors_metadata());

}  // namespace mezzo::io
