// Arrays in numpy's .npy format: what np.save writes and np.load reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

// Reads an array of f32, f64, half precision, i32, i64, u8 or bool; versions 1 to 3 of the format,
// either byte order, C or Fortran order. Everything in the header is checked against the size of
// the file before memory is allocated; nothing in a file is executed. Throws FileError `[npy] FILE:
// what is wrong: the values. What to do.` if the file is missing or damaged, or holds what mezzo
// does not support: other dtypes, Python objects, more than kMaxRank dimensions.
Tensor read_npy(const std::string& path);

// Like read_npy(), from memory; errors call the bytes `source`. The tensor is a copy.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view source = "memory");

// Writes a tensor of any device atomically (see AtomicFile): version 1.0, little-endian, in C order
// whatever its layout. Throws ArgumentError if it is undefined, or bf16, e4m3 or e5m2, which
// numpy does not have; FileError if the file cannot be written.
void write_npy(const std::string& path, const Tensor& tensor);

// Like write_npy(), into memory.
std::vector<std::byte> serialize_npy(const Tensor& tensor);

}  // namespace mezzo::io
