#include "mezzo/kernels/cuda/bias.cuh"
#include "mezzo/kernels/cuda/element.cuh"

namespace mezzo::kernels::cuda {
namespace {

// Adds the bias to N adjacent elements at a time. Remainders are computed in 32 bits if they fit:
// in 64 bits they take longer than everything else.
template <int N, class Bias, class Out>
__global__ void add_bias_kernel(std::int64_t count, std::int64_t features, const float* sums,
                                const Bias* bias, Out* out) {
  const bool is_small = count <= 0xffffffff;
  for (std::int64_t i = grid_first() * N; i < count; i += grid_step() * N) {
    const std::int64_t feature =
        is_small ? static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(features)
                 : i % features;
    float values[N];
    float added[N];
    load(sums + i, values);
    load(bias + feature, added);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] += added[k];
    store(values, out + i);
  }
}

}  // namespace

void add_bias(const Launch& launch, const Tensor& sums, const Tensor& bias, const Tensor& output) {
  const std::int64_t count = output.numel();
  visit_vector_dtype(bias.dtype(), [&]<class Bias>() {
    visit_vector_dtype(output.dtype(), [&]<class Out>() {
      Out* to = out<Out>(output);
      visit_packs<float>(bias.numel(), {sums.address(), bias.address(), to}, [&]<int N>() {
        add_bias_kernel<N><<<launch.blocks_for(count / N), kThreads, 0, launch.stream()>>>(
            count, bias.numel(), in<float>(sums), in<Bias>(bias), to);
      });
    });
  });
  check_launch("add_bias_kernel");
}

}  // namespace mezzo::kernels::cuda
