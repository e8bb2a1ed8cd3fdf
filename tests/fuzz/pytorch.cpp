// Fuzzes PyTorch's files, from memory. The seeds have no checksums, since nothing would get past
// those.
#include <algorithm>
#include <set>

#include "mezzo/io/pytorch_file.h"
#include "mezzo/io/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/io/pytorch_sample.h"

namespace mezzo::fuzz {

void read(Input input) {
  const std::vector<NamedTensor> tensors = io::parse_pytorch(std::as_bytes(input));
  std::size_t bytes = 0;
  std::set<const TensorImpl*> counted;
  for (const NamedTensor& named : tensors) {
    require(named.tensor.is_dense(), "tensors are row-major");
    if (counted.insert(named.tensor.impl()).second) bytes += named.tensor.bytes();
  }
  require(bytes <= 4 * input.size(), "a file cannot ask for much more memory than it has bytes");
  const auto is_reserved = [](const NamedTensor& named) { return named.name == "__metadata__"; };
  if (std::ranges::any_of(tensors, is_reserved)) return;  // safetensors cannot have this name
  const std::vector<std::byte> written = io::serialize_safetensors(tensors);
  require(io::serialize_safetensors(io::parse_safetensors(written).tensors) == written,
          "the tensors come back");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> files;
  for (const bool zip64 : {false, true}) {
    const io::sample::ZipForm form{.zip64 = zip64, .has_checksums = false};
    files.push_back(bytes_of(io::sample::small_file(form)));
    files.push_back(bytes_of(io::sample::checkpoint_file(form)));
  }
  return files;
}

}  // namespace mezzo::fuzz
