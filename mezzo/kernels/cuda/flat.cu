// Checks, scales and measures lists of gradients; the table of flat kernels.
#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/flat.h"
#include "mezzo/kernels/cuda/report.h"

namespace mezzo::flat {
namespace cuda {
namespace {

constexpr unsigned kAcross = 128;  // thread blocks per block of memory

// The bits of the smallest positive f32 that rounds to infinity in T.
template <class T>
__device__ constexpr unsigned infinity_bits() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x7f7f8000U;
  if constexpr (std::is_same_v<T, Float16>) return 0x477ff000U;  // 65520
  return 0x7f800000U;
}

template <bool kScale>
__global__ void check_kernel(Batch<Block> batch, float factor, int* first_bad) {
  const Block& block = batch.blocks[blockIdx.y];
  visit_block(block, [&]<class T>(T* data) {
    bool is_bad = false;
    for_elements<kScale>(data, block.count, [&](float& value) {
      if constexpr (kScale) value *= factor;
      // As integers: ordered like the values, with NaN above infinity.
      is_bad = is_bad || __float_as_uint(fabsf(value)) >= infinity_bits<T>();
    });
    if (is_bad) atomicMin(first_bad, batch.first + static_cast<int>(blockIdx.y));
  });
}

template <bool kScale>
std::size_t check(std::span<const Block> blocks, float factor) {
  if (blocks.empty()) return 0;
  const Launch launch(device_of(blocks));
  const Scratch first_bad(sizeof(int), launch.device());
  // A value above every index, of equal bytes: copying one from the host would make it wait.
  MEZZO_CUDA_CHECK(cudaMemsetAsync(first_bad.as(), 0x7f, sizeof(int), launch.stream()));
  for_batches(blocks, kAcross, [&](const Batch<Block>& batch, dim3 grid) {
    check_kernel<kScale>
        <<<grid, kThreads, 0, launch.stream()>>>(batch, factor, first_bad.as<int>());
  });
  int result = 0;
  copy_bytes(&result, kCpuDevice, first_bad.as(), launch.device(), sizeof(int));
  return std::min(static_cast<std::size_t>(result), blocks.size());
}

std::size_t first_nonfinite(std::span<const Block> blocks) { return check<false>(blocks, 1); }
std::size_t scale(std::span<const Block> blocks, float factor) {
  return check<true>(blocks, factor);
}

__global__ void faults_kernel(const kernels::cuda::Report* report, int* first_bad) {
  if (*static_cast<const volatile int*>(&report->fault) != 0) *first_bad = 0;
}

void note_faults(Device device, std::int32_t* first_bad) {
  const Launch launch(device);
  faults_kernel<<<1, 1, 0, launch.stream()>>>(kernels::cuda::report_of(device), first_bad);
  check_launch("faults_kernel");
}

// Products are not stored, so f32's range counts, whatever the block's dtype.
__global__ void check_products_kernel(Listed<Block> list, std::size_t first, const float* factor,
                                      const double* squares, int* first_bad) {
  if (squares != nullptr && isfinite(*squares)) return;
  const std::size_t index = first + blockIdx.y;
  const Block block = list.blocks[index];
  const float by = *factor;
  visit_block(block, [&]<class T>(T* data) {
    bool is_bad = false;
    for_elements<false>(data, block.count, [&](float& value) {
      is_bad = is_bad || __float_as_uint(fabsf(value * by)) >= infinity_bits<float>();
    });
    if (is_bad) atomicMin(first_bad, static_cast<int>(index));
  });
}

void note_nonfinite(Device device, Listed<Block> blocks, const float* factor, const double* squares,
                    std::int32_t* first_bad) {
  const Launch launch(device);
  for_rows(blocks.count, kAcross, [&](std::size_t first, dim3 grid) {
    check_products_kernel<<<grid, kThreads, 0, launch.stream()>>>(blocks, first, factor, squares,
                                                                  first_bad);
  });
}

// The sum of a thread block's values, in a fixed order, for thread 0.
__device__ double block_sum(double value) {
  __shared__ double shared[kThreads];
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  return shared[0];
}

// In f64, squares of f32 values are exact, and neither overflow nor underflow. Products with the
// factor are rounded to f32 first.
__device__ void write_squares(const Block& block, float factor, double* partial) {
  double sum = 0;
  visit_block(block, [&]<class T>(T* data) {
    for_elements<false>(data, block.count, [&](float& value) {
      const float product = __fmul_rn(value, factor);
      sum += static_cast<double>(product) * product;
    });
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void squares_kernel(Batch<Block> batch, double* partial) {
  write_squares(batch.blocks[blockIdx.y], 1, partial + (batch.first + blockIdx.y) * gridDim.x);
}

__global__ void product_squares_kernel(Listed<Block> list, std::size_t first, const float* factor,
                                       double* partial) {
  const std::size_t index = first + blockIdx.y;
  const Block block = list.blocks[index];
  write_squares(block, *factor, partial + index * gridDim.x);
}

__global__ void total_kernel(std::int64_t count, const double* partial, double* total) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

double sum_of_squares(std::span<const Block> blocks) {
  if (blocks.empty()) return 0;
  const Launch launch(device_of(blocks));
  const std::size_t count = blocks.size() * kAcross;
  const Scratch partial((count + 1) * sizeof(double), launch.device());
  auto* sums = partial.as<double>();
  for_batches(blocks, kAcross, [&](const Batch<Block>& batch, dim3 grid) {
    squares_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch, sums);
  });
  total_kernel<<<1, kThreads, 0, launch.stream()>>>(static_cast<std::int64_t>(count), sums,
                                                    sums + count);
  check_launch("total_kernel");
  double result = 0;
  copy_bytes(&result, kCpuDevice, sums + count, launch.device(), sizeof(double));
  return result;
}

void note_squares(Device device, Listed<Block> blocks, const float* factor, double* sum) {
  const Launch launch(device);
  const std::size_t count = blocks.count * kAcross;
  const Scratch partial(count * sizeof(double), device);
  for_rows(blocks.count, kAcross, [&](std::size_t first, dim3 grid) {
    product_squares_kernel<<<grid, kThreads, 0, launch.stream()>>>(blocks, first, factor,
                                                                   partial.as<double>());
  });
  total_kernel<<<1, kThreads, 0, launch.stream()>>>(static_cast<std::int64_t>(count),
                                                    partial.as<double>(), sum);
  check_launch("total_kernel");
}

__global__ void clamp_kernel(Batch<Block> batch, float limit) {
  const Block& block = batch.blocks[blockIdx.y];
  visit_block(block, [&]<class T>(T* data) {
    for_elements<true>(data, block.count, [&](float& value) {
      // NaN fails the comparison and stays.
      if (fabsf(value) > limit) value = copysignf(limit, value);
    });
  });
}

void clamp_blocks(std::span<const Block> blocks, float limit) {
  if (blocks.empty()) return;
  const Launch launch(device_of(blocks));
  for_batches(blocks, kAcross, [&](const Batch<Block>& batch, dim3 grid) {
    clamp_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch, limit);
  });
}

template <class T>
__global__ void refresh_kernel(const T* param, float* master, std::int64_t count) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    if (narrow<T>(master[i]).bits != param[i].bits) master[i] = widen(param[i]);
  }
}

void refresh_master(const void* param, DType dtype, float* master, std::int64_t count) {
  if (count == 0) return;
  const Launch launch(device_of(param));
  const int blocks = launch.blocks_for(count);
  visit_lower_dtype(dtype, [&]<class T>() {
    refresh_kernel<<<blocks, kThreads, 0, launch.stream()>>>(static_cast<const T*>(param), master,
                                                             count);
  });
  check_launch("refresh_kernel");
}

struct BlendList {
  Blend blends[std::tuple_size_v<Blends>];
};

// In f64, as on the CPU: running statistics would stop moving early in f32.
__global__ void blend_kernel(BlendList list, std::int64_t count, double keep) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    blend_one(list.blends, i, keep);
  }
}

void blend(Device device, const Blends& blends, std::int64_t count, double keep) {
  if (count == 0) return;
  const Launch launch(device);
  BlendList list;
  std::ranges::copy(blends, list.blends);
  const auto grid = static_cast<unsigned>(launch.blocks_for(count));
  blend_kernel<<<grid, kThreads, 0, launch.stream()>>>(list, count, keep);
  check_launch("blend_kernel");
}

}  // namespace
}  // namespace cuda

extern const Kernels kCudaKernels{.name = "cuda",
                                  .first_nonfinite = cuda::first_nonfinite,
                                  .scale = cuda::scale,
                                  .sum_of_squares = cuda::sum_of_squares,
                                  .clamp = cuda::clamp_blocks,
                                  .count_exponents = cuda::count_exponents,
                                  .update = cuda::update,
                                  .note_faults = cuda::note_faults,
                                  .note_nonfinite = cuda::note_nonfinite,
                                  .note_squares = cuda::note_squares,
                                  .update_if = cuda::update_if,
                                  .refresh_master = cuda::refresh_master,
                                  .blend = cuda::blend,
                                  .note_largest = cuda::note_largest,
                                  .advance_scales = cuda::advance_scales};

}  // namespace mezzo::flat
