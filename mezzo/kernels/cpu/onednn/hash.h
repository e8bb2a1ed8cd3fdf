// A hash of the numbers that identify cached objects.
#pragma once

#include <cstdint>

namespace mezzo::kernels {

// A fast hash of a sequence of numbers: every step multiplies and folds, as wyhash does.
class Hash {
 public:
  void add(std::uint64_t number) {
    const auto product = static_cast<unsigned __int128>(state_ ^ number) * 0x9e3779b97f4a7c15ULL;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    state_ += 0xa0761d6478bd642fULL;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x8ebc6af09c88c6e3ULL;
};

}  // namespace mezzo::kernels
