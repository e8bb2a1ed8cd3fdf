// Fuzzes arrays in numpy's format, from memory.
#include "mezzo/io/npy.h"

#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/samples.h"

namespace mezzo::fuzz {
namespace {

// A file of version 1 with that dict.
Bytes npy_file(const std::string& dict, std::size_t data_size) {
  std::string file = "\x93NUMPY\x01";
  for (const std::size_t byte : {std::size_t{0}, dict.size(), std::size_t{0}}) {
    file += static_cast<char>(byte);
  }
  file += dict;
  for (std::size_t i = 0; i < data_size; ++i) file += static_cast<char>(i);
  return bytes_of(file);
}

}  // namespace

void read(Input input) {
  const Tensor tensor = io::parse_npy(std::as_bytes(input));
  const std::vector<std::byte> written = io::serialize_npy(tensor);
  require(io::serialize_npy(io::parse_npy(written)) == written, "the array comes back");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> files{
      npy_file("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }\n", 24),
      npy_file("{\"shape\": (3L,), 'fortran_order': False, 'descr': '<f2'}", 6)};
  for (const NamedTensor& named : tensors_of_all_dtypes()) {
    const DType dtype = named.tensor.dtype();
    if (dtype == DType::kBf16 || is_eight_bit(dtype)) continue;  // numpy does not have it
    files.push_back(from_bytes(io::serialize_npy(named.tensor)));
  }
  return files;
}

}  // namespace mezzo::fuzz
