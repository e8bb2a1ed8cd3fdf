// The tensors of a PyTorch file: views of storages, which are entries of the archive.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/io/pickle.h"
#include "mezzo/io/zip.h"

namespace mezzo::io {

// A tensor as the pickle describes it, under its name.
struct NamedPickle {
  std::string_view name;  // UTF-8
  PickleValue tensor;     // of the kind kTensor
};

// Reads the tensors, in that order, with the bytes of their storages from PREFIX/data/KEY. Each is
// row-major, and a tensor of its own unless it is the same view of the same storage as another.
// One storage at a time is in memory besides the results. Everything is checked before memory is
// allocated: views lie within their storages, storages within the file, and all results together
// take at most four times the bytes of the file. Throws FileError `[pytorch] FILE: ...`.
std::vector<NamedTensor> read_pytorch_tensors(const ZipArchive& archive, const std::string& prefix,
                                              const Pickle& pickle,
                                              std::span<const NamedPickle> named);

}  // namespace mezzo::io
