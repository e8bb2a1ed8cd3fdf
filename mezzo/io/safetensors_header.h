// The header of a safetensors file, separate from how bytes are read and written.
//
// The format: 8 bytes, little-endian, the length N of the header; N bytes of JSON; the data.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/safetensors.h"

namespace mezzo::io {

inline constexpr std::string_view kSafetensorsOp = "safetensors";  // in error messages
inline constexpr std::size_t kSafetensorsPrefix = 8;               // bytes before the header
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";
inline constexpr std::string_view kSafetensorsFormatKey = "format";  // within the metadata
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

// A tensor as the header describes it.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape{};
  std::uint64_t begin = 0;  // of its data, in bytes after the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by place; their data fills the file
  SafetensorsMetadata metadata;
};

// The length of the header, from the first bytes of a file of `file_size` bytes (`prefix` may be
// shorter only if the file is). Throws FileError if it exceeds the limit or the file.
std::uint64_t check_header_length(std::string_view source, std::span<const std::byte> prefix,
                                  std::uint64_t file_size);

// Parses the header's text and checks it against the size of the data after it. Throws FileError.
SafetensorsHeader parse_header(std::string_view source, std::string_view text,
                               std::uint64_t data_size);

// Everything before the data of a file: the length and the padded header.
struct FormattedHeader {
  std::string bytes;
  std::vector<std::size_t> order;  // in which tensors are written; omits other names of one tensor
};

// Throws ArgumentError for tensors, names and metadata that a file cannot hold.
FormattedHeader format_header(std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata);

}  // namespace mezzo::io
