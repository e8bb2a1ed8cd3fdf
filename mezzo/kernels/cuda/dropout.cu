// Dropout: the mask comes straight out of Philox4x32-10 (see core/random.h), a block of four words
// per thread and turn, and never touches memory.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// What becomes of an element: kept and scaled, if the upper 24 bits of its word are not below the
// threshold.
struct Rule {
  std::uint32_t threshold;
  float scale;
  std::uint64_t seed;
  std::uint64_t first_block;
};

template <bool kPacks, class T>
__global__ void dropout_kernel(Rule rule, std::int64_t n, T* out, const T* in) {
  for (std::int64_t block = grid_first(); 4 * block < n; block += grid_step()) {
    std::uint32_t words[4];
    philox_block(rule.seed, rule.first_block + static_cast<std::uint64_t>(block), words);
    const std::int64_t first = 4 * block;
    const auto kept = [&](float x, int k) {
      return (words[k] >> 8) >= rule.threshold ? x * rule.scale : 0.0F;
    };
    if (kPacks && first + 4 <= n) {
      float values[4];
      load(in + first, values);
#pragma unroll
      for (int k = 0; k < 4; ++k) values[k] = kept(values[k], k);
      store(values, out + first);
    } else {
      for (int k = 0; k < 4 && first + k < n; ++k) {
        out[first + k] = narrow<T>(kept(widen(in[first + k]), k));
      }
    }
  }
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<DropoutAttrs>();
  const Tensor& output = args.output();
  const Launch launch(output);
  const Tensor x = dense(args.input(0), attrs.format);
  const Rule rule{attrs.threshold(), static_cast<float>(1 / (1 - attrs.p)), attrs.position.seed,
                  attrs.position.offset / 4};
  const std::int64_t n = x.numel();
  const int blocks = launch.blocks_for((n + 3) / 4);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const T* from = in<T>(x);
    T* to = out<T>(output);
    if (is_aligned<4>(from) && is_aligned<4>(to)) {
      dropout_kernel<true><<<blocks, kThreads, 0, launch.stream()>>>(rule, n, to, from);
    } else {
      dropout_kernel<false><<<blocks, kThreads, 0, launch.stream()>>>(rule, n, to, from);
    }
  });
  check_launch("dropout_kernel");
}

}  // namespace

extern const KernelList dropout{{{{"cuda", float_dtypes_only, run}}}};

}  // namespace mezzo::kernels::cuda
