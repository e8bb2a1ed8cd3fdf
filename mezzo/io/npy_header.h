// The header of an .npy file, separate from how bytes are read and written.
//
// The format: `\x93NUMPY`, version (major, minor), the length N of the header as 2 bytes (version
// 1) or 4, little-endian; N bytes of a Python dict; the data.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

inline constexpr std::string_view kNpyOp = "npy";  // in error messages
// These bytes precede the length of the header.
inline constexpr std::array<unsigned char, 6> kNpyMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
inline constexpr std::size_t kNpyFixed = kNpyMagic.size() + 2;
// numpy has the same limit of 10000 unless told to trust the file.
inline constexpr std::uint64_t kMaxNpyHeader = 10'000;

struct NpyHeader {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;  // the first dimension is innermost in memory
  Shape shape{};
};

// The width of the length field in bytes, from the first kNpyFixed bytes of a file. Throws
// FileError unless these begin an .npy file of a known version.
std::size_t npy_length_bytes(std::string_view source, std::span<const std::byte> fixed);

// Parses the dict and checks it against the size of the data after it. Throws FileError.
NpyHeader parse_npy_header(std::string_view source, std::string_view text, std::uint64_t data_size);

// Everything before the data of a file. Throws ArgumentError for tensors that a file cannot hold.
std::string format_npy_header(const Tensor& tensor);

}  // namespace mezzo::io
