// Batch normalization, fused with ReLU and the addition of a residual.
#include "mezzo/kernels/cuda/batch_norm.cuh"
#include "mezzo/kernels/cuda/moments.cuh"
#include "mezzo/kernels/cuda/norm_together.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = BatchNormInput;

template <int N, class T>
__global__ void MEZZO_FOUR_BLOCKS statistics_kernel(ChannelGrid g, const T* x, Moments* partial) {
  __shared__ Moments shared[N][kThreads];
  const ChannelRange range(g, N, Direction::kForwards);
  Moments moments[N];
  add_up_pixels(range, x, moments, shared);
  if (!range.has_channels() || threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    partial[blockIdx.y * g.channels + range.channel() + k] = moments[k];
  }
}

struct Statistics {
  float* mean;
  float* var;

  __device__ static void join(Moments& sum, const Moments& other) { sum.add(other); }
  __device__ void finish(const Moments& moments, std::int64_t channel) const {
    mean[channel] = moments.mean;
    var[channel] = moments.squares / moments.count;
  }
};

enum class Tail { kNone, kRelu, kAddRelu };

// The elements of one pixel that a thread reads.
template <int N, class T>
struct AppliedTo {
  Pack<T, N> x;
  Pack<T, N> residual;  // if there is one
};

template <int N, Tail kTail, class T>
__global__ void MEZZO_THREE_BLOCKS apply_kernel(ChannelGrid g, ChannelInputs in, const T* x,
                                                const T* residual, T* y) {
  const ChannelRange range(g, N, Direction::kBackwards);
  if (!range.has_channels()) return;
  ChannelNumbers numbers[N];
  read_numbers(numbers, in, range.channel());
  constexpr bool kAdds = kTail == Tail::kAddRelu;
  const auto read = [&](const Place& place) {
    AppliedTo<N, T> packs;
    packs.x = read_stored<N>(x + place.at);
    if constexpr (kAdds) packs.residual = read_stored<N>(residual + place.at);
    return packs;
  };
  range.for_pixels<pixels_ahead(kAdds ? 2 : 1)>(
      read, [&](const AppliedTo<N, T>& packs, const Place& place) {
        float values[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
          float v = numbers[k].normalized(widen(packs.x.values[k]));
          if constexpr (kAdds) v += widen(packs.residual.values[k]);
          if constexpr (kTail != Tail::kNone) v = v <= 0 ? 0.0F : v;  // a NaN stays
          values[k] = v;
        }
        store(values, y + place.at);
      });
}

template <int N, class T>
void run_packs(const Launch& launch, const KernelArgs& args, const Tensor& x,
               const Tensor& residual, ChannelInputs inputs) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const ChannelGrid g = channel_grid(launch, x.shape(), N);
  if (attrs.training) {
    const Scratch partial(static_cast<std::size_t>(g.parts * g.channels) * sizeof(Moments),
                          launch.device());
    statistics_kernel<N>
        <<<g.grid(), g.block(), 0, launch.stream()>>>(g, in<T>(x), partial.as<Moments>());
    check_launch("statistics_kernel");
    combine_columns(launch, g, Statistics{out<float>(args.output(1)), out<float>(args.output(2))},
                    partial.as<const Moments>());
    if (attrs.exchanges()) {
      share_statistics_on_card(attrs, g.pixels, args.output(1), args.output(2));
    }
  }
  const auto apply = [&]<Tail kTail>() {
    apply_kernel<N, kTail><<<g.grid(), g.block(), 0, launch.stream()>>>(
        g, inputs, in<T>(x), in_or_null<T>(residual), out<T>(args.output()));
  };
  if (residual.defined()) {
    apply.template operator()<Tail::kAddRelu>();
  } else if (attrs.relu) {
    apply.template operator()<Tail::kRelu>();
  } else {
    apply.template operator()<Tail::kNone>();
  }
  check_launch("apply_kernel");
}

Tensor channels_of(const KernelArgs& args, std::size_t i) {
  return args.has(i) ? dense_f32(args.input(i)) : Tensor();
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const Tensor& output = args.output();
  const Format format = output.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Tensor x = dense(args.input(In::kX), format);
  if (x.numel() == 0) return;
  const Tensor residual =
      args.has(In::kResidual) ? dense(args.input(In::kResidual), format) : Tensor();
  const Tensor mean = attrs.training ? args.output(1) : channels_of(args, In::kRunningMean);
  const Tensor var = attrs.training ? args.output(2) : channels_of(args, In::kRunningVar);
  const Tensor weight = channels_of(args, In::kWeight);
  const Tensor bias = channels_of(args, In::kBias);
  const Launch launch(x);
  const ChannelInputs inputs{in<float>(mean), in<float>(var), in_or_null<float>(weight),
                             in_or_null<float>(bias), static_cast<float>(attrs.eps)};
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const void* added = residual.defined() ? residual.address() : nullptr;
    visit_packs<T>(x.shape()[1], {x.address(), added, output.address()},
                   [&]<int N>() { run_packs<N, T>(launch, args, x, residual, inputs); });
  });
}

}  // namespace

extern const KernelList batch_norm{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList batch_norm_add_relu{{{{"cuda", float_dtypes_only, run}}}};

}  // namespace mezzo::kernels::cuda
