// Loops that see dense rows whatever the operands' strides: strided data goes through small
// buffers.
#pragma once

#include <array>
#include <cstddef>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// The memory of an operand of a loop.
struct OperandMemory {
  std::byte* data;
  std::int64_t size;  // of an element, in bytes: 1, 2, 4 or 8
};

// The memory of a tensor that is read.
inline OperandMemory memory_of(const Tensor& tensor) {
  auto* data = static_cast<std::byte*>(const_cast<void*>(tensor.raw_data()));
  return {data, static_cast<std::int64_t>(size_of(tensor.dtype()))};
}
// The memory of a tensor that is written, which counts as a change.
inline OperandMemory written_memory_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_raw_data()),
          static_cast<std::int64_t>(size_of(tensor.dtype()))};
}

template <std::size_t N>
using DenseRowBody = FunctionRef<void(const std::array<std::byte*, N>& rows, std::int64_t count)>;

// Calls body(rows, count) in parallel for parts of rows that cover the loop. Operand 0 is written,
// the others are read; the elements at rows[k] are contiguous.
template <std::size_t N>
void for_dense_rows(const Loop<N>& loop, const std::array<OperandMemory, N>& operands,
                    std::type_identity_t<DenseRowBody<N>> body) {
  constexpr std::int64_t kBuffer = 256;
  using Buffers = std::array<std::array<std::byte, 8 * kBuffer>, N>;
  bool is_dense = true;
  for (std::size_t k = 0; k < N; ++k) is_dense = is_dense && loop.inner_stride(k) == 1;
  // `goes_on`: this part continues the row before, so a value that is repeated is in its buffer
  // already.
  const auto run_part = [&](const std::array<std::int64_t, N>& at, std::int64_t count, bool goes_on,
                            Buffers& buffers) {
    std::array<std::byte*, N> rows;
    for (std::size_t k = 0; k < N; ++k) {
      const auto [data, size] = operands[k];
      const std::int64_t stride = loop.inner_stride(k);
      rows[k] = stride == 1 ? data + at[k] * size : buffers[k].data();
      if (k == 0 || stride == 1 || (stride == 0 && goes_on)) continue;
      copy_strided(size, data + at[k] * size, stride, rows[k], 1, count);
    }
    body(rows, count);
    const auto [data, size] = operands[0];
    const std::int64_t stride = loop.inner_stride(0);
    if (stride != 1) copy_strided(size, rows[0], 1, data + at[0] * size, stride, count);
  };
  parallel_for(loop.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) Buffers buffers;
    for_each_run(loop, begin, end, [&](std::array<std::int64_t, N> at, std::int64_t count) {
      const std::int64_t most = is_dense ? count : kBuffer;
      for (std::int64_t first = 0; first < count; first += most) {
        const std::int64_t part = std::min(most, count - first);
        run_part(at, part, first > 0, buffers);
        for (std::size_t k = 0; k < N; ++k) at[k] += part * loop.inner_stride(k);
      }
    });
  });
}

}  // namespace mezzo::kernels
