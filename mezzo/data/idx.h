// MNIST and sets in its format: byte arrays in IDX files, plain or compressed with gzip.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/shape.h"
#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The contents of an IDX file of unsigned bytes.
struct IdxArray {
  Shape shape{};
  std::vector<std::uint8_t> bytes{};  // row-major
};

// Reads an IDX file of unsigned bytes with `rank` dimensions, plain or gzip (recognised by its
// contents). Throws FileError `[idx] FILE: ...` if it is missing, damaged, of another type or rank,
// or shorter or longer than its header says. Memory is allocated as data arrives, not as the header
// promises.
IdxArray read_idx(const std::string& path, std::size_t rank);

// Opens the set in `folder` under the four standard names (`train-images-idx3-ubyte`,
// `t10k-labels-idx1-ubyte`, ..., each also with `.gz`): grey, with ten classes. The classes of
// Fashion-MNIST have names (known_sets.h). Throws FileError as read_idx() does, if labels are not 0
// to 9, or if there are not as many labels as images.
std::unique_ptr<Dataset> open_mnist(const std::string& folder, Split split);

}  // namespace mezzo::data
