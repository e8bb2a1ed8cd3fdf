#include "tests/emulated_card/tensor_core.h"

#include <array>
#include <bit>
#include <cstring>

#include "mezzo/core/half.h"
#include "tests/emulated_card/block.h"
#include "tests/emulated_card/failure.h"

namespace mezzo::emulated_card {
namespace {

constexpr unsigned kAll = 0xffffffffU;

unsigned own_lane() { return position().thread.x % 32; }

template <class T>
T from_lane(unsigned lane, const T& mine) {
  T theirs{};
  exchange_in_warp(kAll, &mine, sizeof(T), lane, &theirs, false);
  return theirs;
}

template <class T>
float half_of(std::uint32_t pair, int second) {
  return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(pair >> (16 * second))));
}

void require_aligned(const void* data, const char* what) {
  if (std::bit_cast<std::uintptr_t>(data) % 16 != 0) give_up(what);
}

}  // namespace

template <class T>
void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  using Left = std::array<std::uint32_t, 4>;
  using Right = std::array<std::uint32_t, 2>;
  const unsigned g = own_lane() / 4;
  const unsigned q = own_lane() % 4;
  std::array<Left, 4> rows;                     // rows g and g + 8
  std::array<std::array<Right, 4>, 2> columns;  // 2q and 2q + 1
  for (unsigned j = 0; j < 4; ++j) {
    rows[j] = from_lane(g * 4 + j, Left{a[0], a[1], a[2], a[3]});
    for (unsigned c = 0; c < 2; ++c) {
      columns[c][j] = from_lane((2 * q + c) * 4 + j, Right{b[0], b[1]});
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned j = k % 8 / 2;
      sums[i] += half_of<T>(rows[j][i / 2 + k / 8 * 2], static_cast<int>(k % 2)) *
                 half_of<T>(columns[i % 2][j][k / 8], static_cast<int>(k % 2));
    }
  }
}

template void multiply_add<BFloat16>(float (&)[4], const std::uint32_t (&)[4],
                                     const std::uint32_t (&)[2]);
template void multiply_add<Float16>(float (&)[4], const std::uint32_t (&)[4],
                                    const std::uint32_t (&)[2]);

void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed) {
  require_aligned(row, "a row of a matrix has to lie on 16 bytes");
  const unsigned g = own_lane() / 4;
  const unsigned q = own_lane() % 4;
  for (unsigned i = 0; i < 4; ++i) {
    to[i] = 0;
    for (unsigned second = 0; second < 2; ++second) {
      const unsigned of_row = transposed ? 2 * q + second : g;
      const unsigned column = transposed ? g : 2 * q + second;
      const auto* from = static_cast<const std::uint16_t*>(from_lane(i * 8 + of_row, row));
      to[i] |= static_cast<std::uint32_t>(from[column]) << (16 * second);
    }
  }
}

void copy_pack(void* shared, const void* global, bool inside) {
  require_aligned(shared, "a copy to shared memory has to lie on 16 bytes");
  require_aligned(global, "a copy from memory has to lie on 16 bytes");
  if (!inside) {
    std::memset(shared, 0, 16);
    return;
  }
  std::memcpy(shared, global, 16);
}

}  // namespace mezzo::emulated_card
