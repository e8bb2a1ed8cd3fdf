// The tile unit in plain C++, with the arithmetic of its instruction.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "mezzo/kernels/cpu/attention/product_tiles.h"

namespace mezzo::test {

// Stands in for the instructions of multiply_in_tiles(). TDPBF16PS adds the products of the first
// numbers of all pairs, beginning from 0, and those of the second ones, by multiply-adds that round
// once. Then it adds these two sums, and their sum to the register. Subnormals count as 0 wherever
// they are read, and become 0 wherever they result.
class EmulatedTiles {
 public:
  void zero(int sum) { std::memset(registers_[sum], 0, sizeof(registers_[sum])); }

  void load(int tile, const char* from, std::int64_t pitch) {
    for (int r = 0; r < kRows; ++r) std::memcpy(registers_[tile][r], from + r * pitch, kRowBytes);
  }

  void store(int sum, char* to, std::int64_t pitch) const {
    for (int r = 0; r < kRows; ++r) std::memcpy(to + r * pitch, registers_[sum][r], kRowBytes);
  }

  void add_products(int sum) {
    const Register& a = registers_[4 + sum / 2];
    const Register& b = registers_[6 + sum % 2];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kRows; ++c) add_products(a[r], b, c, registers_[sum][r][c]);
    }
  }

 private:
  static constexpr int kRows = 16;
  static constexpr int kRowBytes = 64;
  // Elements of 32 bits: an f32, or a pair of bf16 with the first number in the lower half.
  using Register = float[kRows][kRows];

  static float without_subnormals(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
  }
  static float multiply_add(float a, float b, float sum) {
    return without_subnormals(std::fma(a, b, sum));
  }
  static float add(float a, float b) { return without_subnormals(a + b); }

  struct Pair {
    float first;
    float second;
  };
  static Pair pair_of(float element) {
    const auto bits = std::bit_cast<std::uint32_t>(element);
    return {without_subnormals(std::bit_cast<float>(bits << 16)),
            without_subnormals(std::bit_cast<float>(bits & 0xffff0000U))};
  }

  static void add_products(const float* a, const Register& b, int column, float& sum) {
    Pair sums{0, 0};
    for (int k = 0; k < kRows; ++k) {
      const Pair left = pair_of(a[k]);
      const Pair right = pair_of(b[k][column]);
      sums.first = multiply_add(left.first, right.first, sums.first);
      sums.second = multiply_add(left.second, right.second, sums.second);
    }
    sum = add(without_subnormals(sum), add(sums.first, sums.second));
  }

  Register registers_[8];
};

// The unit that this makes.
inline const kernels::attention::TileUnit& emulated_unit() {
  static constexpr kernels::attention::TileUnit kUnit{
      [](const kernels::attention::TileProduct& product) {
        kernels::attention::multiply_in_tiles<EmulatedTiles>(product);
      },
      false};
  return kUnit;
}

}  // namespace mezzo::test
