// Histograms of the exponents of gradients, activations and weights; see
// ops/update/exponent_counts.h.
#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/flat.h"

namespace mezzo::flat::cuda {
namespace {

constexpr int kCells = static_cast<int>(ExponentCounts::kCells);
constexpr unsigned kAcross = 64;
using Count = unsigned long long;  // the type for atomicAdd

// The bits of |value * factor|. A value that the product underflows to zero counts as subnormal,
// apart from zeros.
__device__ unsigned scaled_magnitude(float value, float factor) {
  return max(__float_as_uint(fabsf(value * factor)), min(__float_as_uint(fabsf(value)), 1U));
}

__device__ int cell_of(unsigned bits) {
  const int fraction = static_cast<int>(bits & 0x7fffffU);
  int part = 0;
  for (const int begin : {1, 0x600000, 0x680001, 0x700000, 0x7f8000, 0x7fe000, 0x7ff000}) {
    part += fraction >= begin ? 1 : 0;
  }
  return static_cast<int>(bits >> 23 & 0xffU) * ExponentCounts::kParts + part;
}
static_assert(ExponentCounts::kPartBegins == std::array<std::int32_t, 7>{1, 0x600000, 0x680001,
                                                                         0x700000, 0x7f8000,
                                                                         0x7fe000, 0x7ff000});

// Counts are integers, so the order of additions does not matter. Many threads increment a few
// cells; those in a thread block's own shared memory respond ten times faster.
__global__ void count_kernel(Batch<Block> batch, float factor, Count* counts) {
  __shared__ unsigned shared[kCells];
  for (int i = threadIdx.x; i < kCells; i += kThreads) shared[i] = 0;
  __syncthreads();
  const Block& block = batch.blocks[blockIdx.y];
  visit_block(block, [&]<class T>(T* data) {
    for_elements<false>(data, block.count, [&](float& value) {
      atomicAdd(&shared[cell_of(scaled_magnitude(value, factor))], 1U);
    });
  });
  __syncthreads();
  Count* to = counts + static_cast<std::int64_t>(batch.first + blockIdx.y) * kCells;
  for (int i = threadIdx.x; i < kCells; i += kThreads) {
    if (shared[i] != 0) atomicAdd(to + i, static_cast<Count>(shared[i]));
  }
}

}  // namespace

void count_exponents(std::span<const Block> blocks, float factor,
                     std::span<ExponentCounts> counts) {
  if (blocks.empty()) return;
  const Launch launch(device_of(blocks));
  const std::size_t cells = blocks.size() * ExponentCounts::kCells;
  const Scratch table(cells * sizeof(Count), launch.device());
  MEZZO_CUDA_CHECK(cudaMemsetAsync(table.as(), 0, table.bytes(), launch.stream()));
  for_batches(blocks, kAcross, [&](const Batch<Block>& batch, dim3 grid) {
    count_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch, factor, table.as<Count>());
  });
  std::vector<Count> found(cells);
  copy_bytes(found.data(), kCpuDevice, table.as(), launch.device(), table.bytes());
  for (std::size_t i = 0; i < cells; ++i) {
    counts[i / ExponentCounts::kCells].cells[i % ExponentCounts::kCells] +=
        static_cast<std::int64_t>(found[i]);
  }
}

}  // namespace mezzo::flat::cuda
