#include "mezzo/data/generated.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mezzo::data {

void fill_noise(const Generator& random, std::span<std::uint8_t> out) {
  const std::uint64_t seed = random.position().seed;
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed),
                                         static_cast<std::uint32_t>(seed >> 32)};
  // Generator keeps the third word of the counter at 0, so blocks with 1 are never its own.
  std::uint32_t block = 0;
  for (std::size_t i = 0; i < out.size(); i += 16) {
    const auto words = philox({block++, 0, 1, 0}, key);
    std::memcpy(&out[i], words.data(), std::min<std::size_t>(16, out.size() - i));
  }
}

}  // namespace mezzo::data
