// The scales of delayed scaling: largest values are noted, and all scales of a network advance in
// one launch.
#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/flat.h"
#include "mezzo/kernels/cuda/narrow_state.cuh"
#include "mezzo/ops/scale_factor.h"

namespace mezzo::flat::cuda {
namespace {

__global__ void note_kernel(const float* seen, float* largest) {
  if (isfinite(*seen)) *largest = fmaxf(*largest, *seen);
}

// A thread block for each scale. The history moves on by one element, kThreads elements at a time:
// each is read before the barrier, and its place written after it.
__global__ void advance_kernel(Batch<ScaleHistory> batch) {
  const ScaleHistory& one = batch.blocks[blockIdx.y];
  const float first = one.history[0];
  float own = first;
  for (std::int64_t begin = 0; begin < one.count; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    float next = first;
    if (i + 1 < one.count) next = one.history[i + 1];
    own = fmaxf(own, next);
    __syncthreads();
    if (i < one.count) one.history[i] = i == 0 ? 0.0F : next;
  }
  const float amax = block_largest(own);
  if (threadIdx.x == 0) *one.scale = scale_for(amax, one.largest, *one.scale);
}

}  // namespace

void note_largest(Device device, const float* seen, float* largest) {
  const Launch launch(device);
  note_kernel<<<1, 1, 0, launch.stream()>>>(seen, largest);
  kernels::cuda::check_launch("note_kernel");
}

void advance_scales(Device device, std::span<const ScaleHistory> scales) {
  const Launch launch(device);
  for_batches(scales, 1, [&](const Batch<ScaleHistory>& batch, dim3 grid) {
    advance_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch);
  });
}

}  // namespace mezzo::flat::cuda
