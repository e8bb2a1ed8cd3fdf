// Fuzzes weight files, from memory.
#include "mezzo/io/safetensors.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/samples.h"

namespace mezzo::fuzz {

void read(Input input) {
  const io::SafetensorsFile file = io::parse_safetensors(std::as_bytes(input));
  // Whatever was read can be written, and reads back the same.
  const std::vector<std::byte> written = io::serialize_safetensors(file.tensors, file.metadata);
  const io::SafetensorsFile again = io::parse_safetensors(written);
  require(again.metadata == file.metadata, "the metadata comes back");
  require(io::serialize_safetensors(again.tensors, again.metadata) == written,
          "the tensors come back");
}

std::vector<Bytes> seeds() {
  const auto file = [](const std::vector<NamedTensor>& tensors,
                       const io::SafetensorsMetadata& metadata) {
    return from_bytes(io::serialize_safetensors(tensors, metadata));
  };
  const Tensor shared = counting_tensor({3}, DType::kF16);
  return {file({}, {}), file({{"b", shared}, {"a", shared}, {"c", shared}}, {{"format", "pt"}}),
          file({{"a", counting_tensor({2, 3}, DType::kF32)}}, {}),
          file(tensors_of_all_dtypes(), {{"format", "pt"}, {"note", "\u00e4\n"}})};
}

}  // namespace mezzo::fuzz
