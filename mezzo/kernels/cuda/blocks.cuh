// Loops over lists of blocks of memory: many tensors in one launch.
#pragma once

#include <span>

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo::flat::cuda {

using kernels::cuda::check_launch;
using kernels::cuda::grid_first;
using kernels::cuda::grid_step;
using kernels::cuda::is_aligned;
using kernels::cuda::kPackOf;
using kernels::cuda::kThreads;
using kernels::cuda::Launch;
using kernels::cuda::load;
using kernels::cuda::narrow;
using kernels::cuda::Scratch;
using kernels::cuda::store;
using kernels::cuda::widen;

// The device that holds the memory `data`.
inline Device device_of(const void* data) {
  cudaPointerAttributes attributes{};
  MEZZO_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  return {DeviceType::kCuda, static_cast<std::int8_t>(attributes.device)};
}

// The device of a list of blocks, some of which may have no memory.
inline Device device_of(std::span<const Block> blocks) {
  for (const Block& block : blocks) {
    if (block.data != nullptr) return device_of(block.data);
  }
  return {DeviceType::kCuda, 0};
}

// The blocks of one launch, whose parameters have at most 4 kB.
template <class Block>
struct Batch {
  static constexpr int kMost = static_cast<int>(3584 / sizeof(Block));
  Block blocks[kMost];
  int first = 0;  // index of the first block in the whole list
};

// Calls use(batch, grid) for all blocks. A grid's second dimension counts the blocks of the batch;
// its first one divides the elements of each. A small block's idle threads end at once.
template <class Block, class Use>
void for_batches(std::span<const Block> blocks, unsigned across, const Use& use) {
  for (std::size_t first = 0; first < blocks.size(); first += Batch<Block>::kMost) {
    Batch<Block> batch;
    const std::size_t count = std::min<std::size_t>(Batch<Block>::kMost, blocks.size() - first);
    std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(first), count, batch.blocks);
    batch.first = static_cast<int>(first);
    use(batch, dim3(across, static_cast<unsigned>(count)));
    check_launch("a kernel over blocks");
  }
}

// Calls use(first, grid) for the rows of a list, as many at a time as a grid can have. The grid's
// second dimension counts them from `first` on.
template <class Use>
void for_rows(std::size_t count, unsigned across, const Use& use) {
  constexpr std::size_t kMost = 65535;
  for (std::size_t first = 0; first < count; first += kMost) {
    use(first, dim3(across, static_cast<unsigned>(std::min(kMost, count - first))));
    check_launch("a kernel over a list");
  }
}

// Calls f(values, i) for N elements at a time from element i, N being a pack or 1. Stores the
// changed values if kWrite.
template <bool kWrite, class T, class F>
__device__ inline void for_elements(T* data, std::int64_t count, const F& f) {
  constexpr int N = kPackOf<T>;
  const std::int64_t packed = is_aligned<N>(data) ? count / N * N : 0;
  for (std::int64_t i = grid_first() * N; i < packed; i += grid_step() * N) {
    float values[N];
    load(data + i, values);
#pragma unroll
    for (int k = 0; k < N; ++k) f(values[k]);
    if constexpr (kWrite) store(values, data + i);
  }
  for (std::int64_t i = packed + grid_first(); i < count; i += grid_step()) {
    float value = widen(data[i]);
    f(value);
    if constexpr (kWrite) data[i] = narrow<T>(value);
  }
}

// Calls f(data as T*) for a block's dtype. All threads of a thread block take the same branch.
template <class F>
__device__ inline void visit_block(const Block& block, const F& f) {
  switch (block.dtype) {
    case DType::kF32: return f(static_cast<float*>(block.data));
    case DType::kBf16: return f(static_cast<BFloat16*>(block.data));
    default: return f(static_cast<Float16*>(block.data));
  }
}

}  // namespace mezzo::flat::cuda
