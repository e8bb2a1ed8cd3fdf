#include "mezzo/data/known_sets.h"

#include <algorithm>
#include <cstddef>

#include "mezzo/io/crc32c.h"

namespace mezzo::data {
namespace {

// Identifies the labels of a split.
struct KnownLabels {
  std::size_t count;
  std::uint32_t checksum;  // crc32c
};

// For train-labels-idx1-ubyte and t10k-labels-idx1-ubyte, as published.
constexpr KnownLabels kFashionMnist[] = {{60'000, 0x0047F202}, {10'000, 0xE898E67E}};

}  // namespace

std::vector<std::string> known_class_names(std::span<const std::uint8_t> labels) {
  const bool has_known_size = std::ranges::any_of(
      kFashionMnist, [&](const KnownLabels& known) { return known.count == labels.size(); });
  if (!has_known_size) return {};
  const std::uint32_t checksum = io::crc32c(std::as_bytes(labels));
  const bool is_fashion = std::ranges::any_of(kFashionMnist, [&](const KnownLabels& known) {
    return known.count == labels.size() && known.checksum == checksum;
  });
  if (!is_fashion) return {};
  return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
          "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
}

}  // namespace mezzo::data
