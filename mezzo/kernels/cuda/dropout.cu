// Dropout. The mask comes directly from Philox4x32-10 (core/random.h), a block of four words per
// thread and iteration, and is never stored in memory.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The rule for an element: it is kept and scaled unless the upper 24 bits of its word are below the
// threshold. For p = 1 no element is kept, and the scale, which is then infinite, is not used.
struct Rule {
  std::uint32_t threshold;
  float scale;
};

// The position in the random stream. A recording holds the pointer, and finds another start in each
// run.
struct Place {
  DropoutAttrs attrs;
  const std::int64_t* start;
};

template <bool kPacks, class T>
__global__ void dropout_kernel(Rule rule, Place place, std::int64_t n, T* out, const T* in) {
  const RandomPosition first_word = place.attrs.place(place.start);
  for (std::int64_t block = grid_first(); 4 * block < n; block += grid_step()) {
    std::uint32_t words[4];
    philox_block(first_word.seed, first_word.offset / 4 + static_cast<std::uint64_t>(block), words);
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
  const Rule rule{attrs.threshold(), static_cast<float>(1 / (1 - attrs.p))};
  const Tensor start = args.has(1) ? dense(args.input(1), Format::kContiguous) : Tensor();
  const Place place{attrs, start.defined() ? in<std::int64_t>(start) : nullptr};
  const std::int64_t n = x.numel();
  const int blocks = launch.blocks_for((n + 3) / 4);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const T* from = in<T>(x);
    T* to = out<T>(output);
    if (is_aligned<4>(from) && is_aligned<4>(to)) {
      dropout_kernel<true><<<blocks, kThreads, 0, launch.stream()>>>(rule, place, n, to, from);
    } else {
      dropout_kernel<false><<<blocks, kThreads, 0, launch.stream()>>>(rule, place, n, to, from);
    }
  });
  check_launch("dropout_kernel");
}

// The second input is a position in the random stream.
Support supports(const KernelArgs& args) {
  return float_dtypes_only({args.inputs.first(1), args.outputs, args.attributes});
}

}  // namespace

extern const KernelList dropout{{{{"cuda", supports, run}}}};

}  // namespace mezzo::kernels::cuda
