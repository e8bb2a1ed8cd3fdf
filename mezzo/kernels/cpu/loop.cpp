#include "mezzo/kernels/cpu/loop.h"

#include <algorithm>

namespace mezzo::kernels {
namespace {

template <class T>
void copy_sized(const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
                std::int64_t count) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i * to_step] = in[i * from_step];
}

}  // namespace

template <std::size_t N>
Loop<N> make_loop(const Shape& shape, const std::array<Strides, N>& strides) {
  std::array<std::size_t, kMaxRank> order{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) order[count++] = i;
  }
  std::stable_sort(order.begin(), order.begin() + count, [&](std::size_t a, std::size_t b) {
    for (std::size_t k = 0; k < N; ++k) {
      if (strides[k][a] != strides[k][b]) return strides[k][a] > strides[k][b];
    }
    return false;
  });
  Loop<N> loop;
  for (std::size_t position = 0; position < count; ++position) {
    const std::size_t i = order[position];
    bool merges = position > 0;
    for (std::size_t k = 0; merges && k < N; ++k) {
      merges = loop.strides[k].back() == strides[k][i] * shape[i];
    }
    if (merges) {
      loop.sizes.back() *= shape[i];
      for (std::size_t k = 0; k < N; ++k) loop.strides[k].back() = strides[k][i];
    } else {
      loop.sizes.push_back(shape[i]);
      for (std::size_t k = 0; k < N; ++k) loop.strides[k].push_back(strides[k][i]);
    }
  }
  if (count == 0) {
    loop.sizes.push_back(1);
    for (Strides& operand : loop.strides) operand.push_back(1);
  }
  return loop;
}

template <std::size_t N>
void for_each_run(const Loop<N>& loop, std::int64_t begin, std::int64_t end,
                  const std::type_identity_t<RunBody<N>>& body) {
  if (begin >= end) return;
  const std::size_t last = loop.rank() - 1;
  const std::int64_t inner = loop.inner();
  Shape index = loop.sizes;
  std::int64_t rest = begin;
  std::array<std::int64_t, N> offsets{};
  for (std::size_t axis = loop.rank(); axis-- > 0;) {
    index[axis] = rest % loop.sizes[axis];
    rest /= loop.sizes[axis];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += index[axis] * loop.strides[k][axis];
  }
  std::int64_t left = end - begin;
  std::int64_t count = std::min(inner - index[last], left);
  for (;;) {
    body(offsets, count);
    left -= count;
    if (left == 0) return;
    for (std::size_t k = 0; k < N; ++k) offsets[k] -= index[last] * loop.strides[k][last];
    index[last] = 0;
    for (std::size_t axis = last; axis-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += loop.strides[k][axis];
      if (++index[axis] < loop.sizes[axis]) break;
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= loop.sizes[axis] * loop.strides[k][axis];
      index[axis] = 0;
    }
    count = std::min(inner, left);
  }
}

template Loop<2> make_loop<2>(const Shape&, const std::array<Strides, 2>&);
template Loop<3> make_loop<3>(const Shape&, const std::array<Strides, 3>&);
template void for_each_run<2>(const Loop<2>&, std::int64_t, std::int64_t, const RunBody<2>&);
template void for_each_run<3>(const Loop<3>&, std::int64_t, std::int64_t, const RunBody<3>&);

void copy_strided(std::int64_t size, const void* from, std::int64_t from_step, void* to,
                  std::int64_t to_step, std::int64_t count) {
  const auto copy = size == 4 ? copy_sized<std::uint32_t> : copy_sized<std::uint16_t>;
  copy(from, from_step, to, to_step, count);
}

}  // namespace mezzo::kernels
