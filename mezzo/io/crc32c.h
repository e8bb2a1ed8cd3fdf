// CRC-32C (Castagnoli): the checksum of checkpoints and of TensorBoard's event files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mezzo::io {

// The checksum of `bytes`. Consecutive pieces chain: crc32c(b, crc32c(a)) is that of a then b.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t crc32c(std::string_view text, std::uint32_t before = 0);

}  // namespace mezzo::io
