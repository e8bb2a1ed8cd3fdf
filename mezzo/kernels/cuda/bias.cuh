// Adding a bias to sums that are still f32.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// out = sums + bias, in f32, rounded once.
template <class Bias, class Out>
__global__ void add_bias_kernel(std::int64_t count, std::int64_t features, const float* sums,
                                const Bias* bias, Out* out) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    out[i] = narrow<Out>(sums[i] + widen(bias[i % features]));
  }
}

// The last dimension in memory has as many numbers as the bias. The sums may be the output.
inline void add_bias(const Launch& launch, const Tensor& sums, const Tensor& bias,
                     const Tensor& output) {
  visit_vector_dtype(bias.dtype(), [&]<class Bias>() {
    visit_vector_dtype(output.dtype(), [&]<class Out>() {
      add_bias_kernel<<<launch.blocks_for(output.numel()), kThreads, 0, launch.stream()>>>(
          output.numel(), bias.numel(), in<float>(sums), in<Bias>(bias), out<Out>(output));
    });
  });
  check_launch("add_bias_kernel");
}

}  // namespace mezzo::kernels::cuda
