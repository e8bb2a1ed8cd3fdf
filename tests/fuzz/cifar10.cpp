// Fuzzes CIFAR-10's binary records, as the file of a test set.
#include "mezzo/data/cifar10.h"

#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

constexpr std::size_t kRecord = 1 + 3 * 32 * 32;

Bytes records(std::size_t count) {
  Bytes bytes(count * kRecord);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  for (std::size_t i = 0; i < count; ++i) bytes[i * kRecord] = static_cast<std::uint8_t>(9 - i);
  return bytes;
}

}  // namespace

void read(Input input) {
  static const Folder kFolder;
  kFolder.write("test_batch.bin", input);
  const auto dataset = data::open_cifar10(kFolder.path(), data::Split::kTest);
  require(dataset->size() == static_cast<std::int64_t>(input.size() / kRecord),
          "every record is an image");
  Bytes pixels(kRecord - 1);
  Generator random(0);
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const std::int64_t label = dataset->read(i, random, pixels);
    require(label >= 0 && label < dataset->num_classes(), "labels are classes");
  }
}

std::vector<Bytes> seeds() { return {records(1), records(2)}; }

}  // namespace mezzo::fuzz
