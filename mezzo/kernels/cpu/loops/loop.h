// Loops over strided tensors. Dimensions are put into memory order and merged where they are
// contiguous.
//
// One mechanism gives every fast path:
// * two dense tensors of one layout merge into a single dimension;
// * a scalar operand has only strides of 0;
// * a bias is an operand of a matrix loop with stride 0 over the rows;
// * a transposition is an operand of a matrix loop with stride 1 over the rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "mezzo/core/function_ref.h"
#include "mezzo/core/tensor.h"

namespace mezzo::kernels {

// The dimensions of a loop over N operands, outermost first; never empty.
template <std::size_t N>
struct Loop {
  Shape sizes;
  std::array<Strides, N> strides;  // of each operand, in elements

  std::size_t rank() const { return sizes.rank(); }
  std::int64_t numel() const { return sizes.numel(); }
  // The size and the strides of the innermost dimension.
  std::int64_t inner() const { return sizes.back(); }
  std::int64_t inner_stride(std::size_t operand) const { return strides[operand].back(); }
};

// Makes a loop over `shape`. Dimensions are ordered by the strides of operand 0, then by those of
// the next operands.
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

// The strides with which `tensor` is read when it broadcasts to `shape`.
inline Strides broadcast_strides(const Tensor& tensor, const Shape& shape) {
  Strides strides = Shape::filled(shape.rank(), 0);
  const std::size_t extra = shape.rank() - tensor.rank();
  for (std::size_t i = extra; i < shape.rank(); ++i) {
    if (tensor.shape()[i - extra] != 1) strides[i] = tensor.strides()[i - extra];
  }
  return strides;
}

// The offset, under `strides`, of element `index` in row-major order of the dimensions `sizes`.
inline std::int64_t offset_of(std::int64_t index, const Shape& sizes, const Strides& strides) {
  std::int64_t offset = 0;
  for (std::size_t i = sizes.rank(); i-- > 0 && index > 0;) {
    offset += index % sizes[i] * strides[i];
    index /= sizes[i];
  }
  return offset;
}

// The coordinate along `axis` of element `index` of the dimensions `sizes`.
inline std::int64_t position_along(std::int64_t index, const Shape& sizes, std::size_t axis) {
  for (std::size_t i = sizes.rank(); i-- > axis + 1;) index /= sizes[i];
  return index % sizes[axis];
}

// The body of a loop: it handles a run along the innermost dimension. offsets[k] is where operand
// k's run starts.
template <std::size_t N>
using RunBody = FunctionRef<void(const std::array<std::int64_t, N>& offsets, std::int64_t count)>;

// Calls body(offsets, count) for the runs that cover the elements [begin, end) in loop order.
template <std::size_t N>
void for_each_run(const Loop<N>& loop, std::int64_t begin, std::int64_t end,
                  std::type_identity_t<RunBody<N>> body) {
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

// to[i * to_step] = from[i * from_step], of elements of `size` bytes: 1, 2, 4 or 8.
void copy_strided(std::int64_t size, const void* from, std::int64_t from_step, void* to,
                  std::int64_t to_step, std::int64_t count);

}  // namespace mezzo::kernels
