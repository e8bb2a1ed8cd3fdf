// The gradients of batch normalization, fused with those of ReLU and of the residual.
#include <array>

#include "mezzo/kernels/cuda/batch_norm.cuh"
#include "mezzo/kernels/cuda/norm_together.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = BatchNormGradInput;

// Where the signs before the ReLU come from: there is no ReLU; they are recomputed from x, or from
// x and the residual; or y is read.
enum class Mask { kNone, kFromX, kFromResidual, kFromY };

// With a residual, the masked gradient is a result, too.
constexpr bool has_residual(Mask mask) {
  return mask == Mask::kFromResidual || mask == Mask::kFromY;
}

template <class T>
struct GradTensors {
  const T* grad;
  const T* x;
  T* grad_x;                   // may overlap x or grad: each element is read before it is written
  const T* signs = nullptr;    // y or the residual
  T* grad_residual = nullptr;  // if there is a residual; may overlap, too
  const T* other = nullptr;    // a second gradient, which is added to the first
};

// The elements of one pixel that a thread reads, unconverted: several pixels wait in few registers.
template <int N, Mask kMask, bool kJoined, class T>
struct PixelPacks {
  static constexpr int kCount = 2 + has_residual(kMask) + kJoined;
  Pack<T, N> x, grad, signs, other;

  __device__ static PixelPacks read(const GradTensors<T>& t, std::int64_t at) {
    PixelPacks packs;
    packs.x = read_stored<N>(t.x + at);
    packs.grad = read_stored<N>(t.grad + at);
    if constexpr (has_residual(kMask)) packs.signs = read_stored<N>(t.signs + at);
    if constexpr (kJoined) packs.other = read_stored<N>(t.other + at);
    return packs;
  }

  // Value k of x, and its gradient before the ReLU.
  __device__ float2 value(const ChannelNumbers& numbers, int k) const {
    const float at = widen(x.values[k]);
    float g = widen(grad.values[k]);
    // Rounded to T, like the sum of a separate call.
    if constexpr (kJoined) g = widen(narrow<T>(g + widen(other.values[k])));
    float y = 0;
    if constexpr (kMask == Mask::kFromY) y = widen(signs.values[k]);
    if constexpr (kMask == Mask::kFromX) y = numbers.normalized(at);
    // Rounded like y itself: a small value may have become 0.
    if constexpr (kMask == Mask::kFromResidual) {
      y = widen(narrow<T>(numbers.normalized(at) + widen(signs.values[k])));
    }
    if constexpr (kMask != Mask::kNone) g = y <= 0 ? 0.0F : g;
    return {at, g};
  }
};

// Sums the gradients, and their products with the values' distances from the mean. These are the
// gradients of bias and of weight, except for the normalising factor of the latter, which would
// take a register for each channel. With a residual, also stores the gradients for grad_x_kernel.
template <int N, Mask kMask, bool kJoined, class T>
__global__ void MEZZO_THREE_BLOCKS sums_kernel(ChannelGrid g, ChannelInputs in, GradTensors<T> t,
                                               float2* partial) {
  using Packs = PixelPacks<N, kMask, kJoined, T>;
  __shared__ float2 shared[N][kThreads];
  const ChannelRange range(g, N, Direction::kForwards);
  ChannelNumbers numbers[N];
  if (range.has_channels()) read_numbers(numbers, in, range.channel());
  float2 sums[N] = {};
  range.for_pixels<pixels_ahead(Packs::kCount)>(
      [&](const Place& place) { return Packs::read(t, place.at); },
      [&](const Packs& packs, const Place& place) {
        float grads[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const auto [x, grad] = packs.value(numbers[k], k);
          sums[k].x += grad;
          sums[k].y = fmaf(grad, x - numbers[k].mean, sums[k].y);
          grads[k] = grad;
        }
        if constexpr (has_residual(kMask)) store(grads, t.grad_residual + place.at);
      });
  add_up_columns(sums, shared, add_pair);
  if (!range.has_channels() || threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < N; ++k) partial[blockIdx.y * g.channels + range.channel() + k] = sums[k];
}

struct ParameterGrads {
  ChannelInputs in;
  float* grad_weight;
  float* grad_bias;

  __device__ static void join(float2& sum, const float2& other) { add_pair(sum, other); }
  __device__ void finish(const float2& sums, std::int64_t channel) const {
    ChannelNumbers numbers[1];
    read_numbers(numbers, in, channel);
    grad_weight[channel] = sums.y * numbers[0].rstd;
    grad_bias[channel] = sums.x;
  }
};

// `share`: 1 / pixels in training, where the statistics depend on x. Otherwise it is 0 and nothing
// is subtracted, since 0 times an infinite sum would be NaN.
template <int N, Mask kMask, class T>
__global__ void MEZZO_THREE_BLOCKS grad_x_kernel(ChannelGrid g, ChannelInputs in, GradTensors<T> t,
                                                 float share, const float* grad_weight,
                                                 const float* grad_bias) {
  using Packs = PixelPacks<N, kMask, false, T>;
  const ChannelRange range(g, N, Direction::kBackwards);
  if (!range.has_channels()) return;
  ChannelNumbers numbers[N];
  read_numbers(numbers, in, range.channel());
  float sums[N];
  float products[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    sums[k] = share * grad_bias[range.channel() + k];
    products[k] = share * grad_weight[range.channel() + k] * numbers[k].rstd;
  }
  range.for_pixels<pixels_ahead(Packs::kCount)>(
      [&](const Place& place) { return Packs::read(t, place.at); },
      [&](const Packs& packs, const Place& place) {
        float grads[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const auto [x, grad] = packs.value(numbers[k], k);
          const float common = share > 0 ? fmaf(x - numbers[k].mean, products[k], sums[k]) : 0.0F;
          grads[k] = numbers[k].scale * (grad - common);
        }
        store(grads, t.grad_x + place.at);
      });
}

template <int N, Mask kMask, bool kJoined, class T>
void run_kernels(const Launch& launch, const KernelArgs& args, const GradTensors<T>& t,
                 const ChannelInputs& inputs) {
  const Shape& shape = args.output().shape();
  const ChannelGrid g = channel_grid(launch, shape, N);
  auto* grad_weight = out<float>(args.output(1));
  auto* grad_bias = out<float>(args.output(2));
  const Scratch partial(static_cast<std::size_t>(g.parts * g.channels) * sizeof(float2),
                        launch.device());
  sums_kernel<N, kMask, kJoined>
      <<<g.grid(), g.block(), 0, launch.stream()>>>(g, inputs, t, partial.as<float2>());
  check_launch("sums_kernel");
  combine_columns(launch, g, ParameterGrads{inputs, grad_weight, grad_bias},
                  partial.as<const float2>());
  // Statistics of several processes depend on x through the sums of all of them.
  const auto& attrs = args.attrs<BatchNormAttrs>();
  std::array<Tensor, 2> sums{args.output(1), args.output(2)};
  if (attrs.exchanges()) sums = means_on_card(attrs, sums[0], sums[1]);
  const float share = attrs.training ? 1.0F / static_cast<float>(g.pixels) : 0.0F;
  // With a residual, the gradients are joined and masked by now.
  constexpr bool kMasked = has_residual(kMask);
  GradTensors<T> rest = t;
  if (kMasked) rest.grad = t.grad_residual;
  grad_x_kernel<N, kMasked ? Mask::kNone : kMask><<<g.grid(), g.block(), 0, launch.stream()>>>(
      g, inputs, rest, share, in<float>(sums[0]), in<float>(sums[1]));
  check_launch("grad_x_kernel");
}

template <Mask kMask, bool kJoined, class T>
void run_packs(const Launch& launch, const KernelArgs& args, const GradTensors<T>& t,
               const ChannelInputs& inputs) {
  visit_packs<T>(args.output().shape()[1],
                 {t.grad, t.x, t.signs, t.grad_x, t.grad_residual, t.other},
                 [&]<int N>() { run_kernels<N, kMask, kJoined>(launch, args, t, inputs); });
}

template <Mask kMask, class T>
void run_residual(const Launch& launch, const KernelArgs& args, GradTensors<T> t,
                  const ChannelInputs& inputs, Format format) {
  const Tensor signs = dense(args.input(kMask == Mask::kFromY ? In::kY : In::kResidual), format);
  t.signs = in<T>(signs);
  t.grad_residual = out<T>(args.output(3));
  if (!args.has(In::kOtherGrad)) return run_packs<kMask, false>(launch, args, t, inputs);
  const Tensor other = dense(args.input(In::kOtherGrad), format);
  t.other = in<T>(other);
  run_packs<kMask, true>(launch, args, t, inputs);
}

template <class T>
void run_typed(const KernelArgs& args, const ChannelInputs& inputs) {
  const Tensor& output = args.output();
  const Format format = output.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Tensor x = dense(args.input(In::kX), format);
  const Tensor grad = dense(args.input(In::kGrad), format);
  const Launch launch(x);
  const GradTensors<T> t{in<T>(grad), in<T>(x), out<T>(output)};
  if (args.has(In::kY)) return run_residual<Mask::kFromY>(launch, args, t, inputs, format);
  if (args.has(In::kResidual)) {
    return run_residual<Mask::kFromResidual>(launch, args, t, inputs, format);
  }
  if (args.attrs<BatchNormAttrs>().relu) {
    return run_packs<Mask::kFromX, false>(launch, args, t, inputs);
  }
  run_packs<Mask::kNone, false>(launch, args, t, inputs);
}

void run(const KernelArgs& args) {
  const auto channels = [&](std::size_t i) {
    return args.has(i) ? dense_f32(args.input(i)) : Tensor();
  };
  const Tensor mean = channels(In::kMean);
  const Tensor var = channels(In::kVar);
  const Tensor weight = channels(In::kWeight);
  const Tensor bias = channels(In::kBias);
  const ChannelInputs inputs{in<float>(mean), in<float>(var), in_or_null<float>(weight),
                             in_or_null<float>(bias),
                             static_cast<float>(args.attrs<BatchNormAttrs>().eps)};
  visit_vector_dtype(args.input(In::kX).dtype(), [&]<class T>() { run_typed<T>(args, inputs); });
}

}  // namespace

extern const KernelList batch_norm_grad{{{{"cuda", float_dtypes_only, run}}}};

}  // namespace mezzo::kernels::cuda
