// Safetensors files made by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::io {

// A file with that header, its correct length in front, and that many bytes of data 0, 1, 2, ...
inline std::vector<std::byte> file_bytes(std::string_view header, std::size_t data_size = 0) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(8 + header.size() + data_size);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_size; ++i) {
    bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  }
  return bytes;
}

// A header with one tensor `a`.
inline std::string header_of(std::string_view dtype, std::string_view shape,
                             std::string_view offsets) {
  return "{\"a\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}}";
}

}  // namespace mezzo::io
