// Group normalization and its gradients over channels-last images. Each sample's pixels are summed
// per channel, as in batch normalization, and the channels of a group are combined. Then the same
// pixels are normalised. Thread blocks along z have different samples.
#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/moments.cuh"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/group_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = GroupNormInput;
using GradIn = GroupNormGradInput;

// A grid over the pixels and channels of one sample, and the number of samples.
struct SampleGrid {
  ChannelGrid one;
  std::int64_t samples = 0;
  std::int64_t groups = 1;
  std::int64_t group_channels = 1;

  dim3 grid() const {
    constexpr std::int64_t kMostBlocks = 65535;  // along z
    const dim3 plane = one.grid();
    return {plane.x, plane.y, static_cast<unsigned>(std::min(samples, kMostBlocks))};
  }
  __host__ __device__ std::int64_t size() const { return one.pixels * one.channels; }
  __host__ __device__ std::int64_t partial_size() const { return one.parts * one.channels; }
  // The groups of all samples, as rows of the partial sums that belong to each.
  Rows partial_rows() const { return {samples * groups, one.parts * group_channels, 1}; }
  // The index of a group's partial sum j.
  __device__ std::int64_t partial(std::int64_t row, std::int64_t j) const {
    return row / groups * partial_size() + j / group_channels * one.channels +
           channel(row, j % group_channels);
  }
  __device__ std::int64_t channel(std::int64_t row, std::int64_t c) const {
    return row % groups * group_channels + c;
  }
  __device__ float numbers() const { return static_cast<float>(one.pixels * group_channels); }
  __device__ std::int64_t row(std::int64_t sample, std::int64_t channel_of_sample) const {
    return sample * groups + channel_of_sample / group_channels;
  }
};

SampleGrid sample_grid(const Launch& launch, const GroupSizes& sizes, int pack) {
  SampleGrid g{channel_grid(launch, sizes.pixels, sizes.channels, pack), sizes.samples,
               sizes.groups, sizes.group_channels()};
  // All samples together have enough blocks for all multiprocessors.
  g.one.parts = std::max<std::int64_t>(g.one.parts / std::max<std::int64_t>(sizes.samples, 1), 1);
  g.one.per_part = (g.one.pixels + g.one.parts - 1) / g.one.parts;
  return g;
}

template <int N, class T>
__global__ void MEZZO_FOUR_BLOCKS group_moments_kernel(SampleGrid g, const T* x, Moments* partial) {
  __shared__ Moments shared[N][kThreads];
  const ChannelRange range(g.one, N, Direction::kForwards);
  for (std::int64_t sample = blockIdx.z; sample < g.samples; sample += gridDim.z) {
    Moments moments[N];
    add_up_pixels(range, x + sample * g.size(), moments, shared);
    if (!range.has_channels() || threadIdx.y != 0) continue;
    Moments* to = partial + sample * g.partial_size() + blockIdx.y * g.one.channels;
#pragma unroll
    for (int k = 0; k < N; ++k) to[range.channel() + k] = moments[k];
  }
}

// Mean and deviation of a group, from the moments of its channels' parts as a row.
struct JoinMoments {
  SampleGrid g;
  const Moments* partial;
  float eps;
  float* means;
  float* rstds;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const float numbers = g.numbers();
    float total = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const Moments& part = partial[g.partial(row, j)];
      total = fmaf(part.count / numbers, part.mean, total);
    }
    const float mean = Of::all(total, SumOf());
    float squares = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const Moments& part = partial[g.partial(row, j)];
      const float off = part.mean - mean;
      squares += fmaf(part.count * off, off, part.squares);
    }
    const float rstd = functions::rstd_of(Of::all(squares, SumOf()) / numbers, eps);
    if (Of::lane() != 0) return;
    means[row] = mean;
    rstds[row] = rstd;
  }
};

// The statistics of each group, and the parameters of each channel.
struct GroupInputs {
  const float* means;
  const float* rstds;
  const float* weight;  // null: 1
  const float* bias;    // null: 0

  __device__ float weight_of(std::int64_t channel) const {
    return weight != nullptr ? weight[channel] : 1.0F;
  }
  __device__ float bias_of(std::int64_t channel) const {
    return bias != nullptr ? bias[channel] : 0.0F;
  }
};

template <int N, class T>
__global__ void MEZZO_THREE_BLOCKS group_apply_kernel(SampleGrid g, GroupInputs in, const T* x,
                                                      T* y) {
  const ChannelRange range(g.one, N, Direction::kBackwards);
  if (!range.has_channels()) return;
  for (std::int64_t sample = blockIdx.z; sample < g.samples; sample += gridDim.z) {
    float means[N];
    float scales[N];
    float biases[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const std::int64_t channel = range.channel() + k;
      const std::int64_t row = g.row(sample, channel);
      means[k] = in.means[row];
      scales[k] = in.rstds[row] * in.weight_of(channel);
      biases[k] = in.bias_of(channel);
    }
    const T* from = x + sample * g.size();
    T* to = y + sample * g.size();
    range.for_pixels<pixels_ahead(1)>(
        [&](const Place& place) { return read_stored<N>(from + place.at); },
        [&](const Pack<T, N>& pack, const Place& place) {
          float values[N];
#pragma unroll
          for (int k = 0; k < N; ++k) {
            values[k] = fmaf(widen(pack.values[k]) - means[k], scales[k], biases[k]);
          }
          store(values, to + place.at);
        });
  }
}

template <class T>
struct GroupGradTensors {
  const T* grad;
  const T* x;
  T* grad_x;  // may be grad: each element is read before it is written

  __device__ GroupGradTensors of(std::int64_t first) const {
    return {grad + first, x + first, grad_x + first};
  }
};

template <int N, class T>
struct GroupGradPacks {
  Pack<T, N> grad, x;
};

template <int N, class T>
__device__ GroupGradPacks<N, T> read_group_grad(const GroupGradTensors<T>& t, const Place& place) {
  return {read_stored<N>(t.grad + place.at), read_stored<N>(t.x + place.at)};
}

// Sums the gradients, and their products with the values' distances from the mean.
template <int N, class T>
__global__ void MEZZO_THREE_BLOCKS group_sums_kernel(SampleGrid g, GroupInputs in,
                                                     GroupGradTensors<T> all, float2* partial) {
  __shared__ float2 shared[N][kThreads];
  const ChannelRange range(g.one, N, Direction::kForwards);
  for (std::int64_t sample = blockIdx.z; sample < g.samples; sample += gridDim.z) {
    const GroupGradTensors<T> t = all.of(sample * g.size());
    float means[N] = {};
    if (range.has_channels()) {
#pragma unroll
      for (int k = 0; k < N; ++k) means[k] = in.means[g.row(sample, range.channel() + k)];
    }
    float2 sums[N] = {};
    range.for_pixels<pixels_ahead(2)>(
        [&](const Place& place) { return read_group_grad<N>(t, place); },
        [&](const GroupGradPacks<N, T>& packs, const Place&) {
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const float grad = widen(packs.grad.values[k]);
            add_pair(sums[k], {grad, grad * (widen(packs.x.values[k]) - means[k])});
          }
        });
    add_up_columns(sums, shared, add_pair);
    if (!range.has_channels() || threadIdx.y != 0) continue;
    float2* to = partial + sample * g.partial_size() + blockIdx.y * g.one.channels;
#pragma unroll
    for (int k = 0; k < N; ++k) to[range.channel() + k] = sums[k];
  }
}

// What is subtracted from the scaled gradients of a group: a constant, and a multiple of the
// distance from the mean.
struct JoinSums {
  SampleGrid g;
  GroupInputs in;
  const float2* partial;
  float2* taken;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    float sum = 0;
    float products = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const float2 part = partial[g.partial(row, j)];
      const float weight = in.weight_of(g.channel(row, j % g.group_channels));
      sum = fmaf(weight, part.x, sum);
      products = fmaf(weight, part.y, products);
    }
    sum = Of::all(sum, SumOf());
    products = Of::all(products, SumOf());
    if (Of::lane() != 0) return;
    const float rstd = in.rstds[row];
    const float share = rstd / g.numbers();
    taken[row] = {share * sum, share * products * rstd * rstd};
  }
};

// The gradients of weight and bias: sums over the samples' parts.
struct ChannelGrads {
  float* grad_weight;
  float* grad_bias;

  __device__ static void join(float2& sum, const float2& other) { add_pair(sum, other); }
  __device__ void finish(const float2& sum, std::int64_t channel) const {
    grad_bias[channel] = sum.x;
    grad_weight[channel] = sum.y;
  }
};

struct ChannelTerms {
  static constexpr int kPacks = 1;
  using Sum = float2;
  struct Packs {
    float2 sums;
    float rstd;
  };

  SampleGrid g;
  const float2* partial;
  const float* rstds;

  __device__ Packs read(const Place& place) const {
    const std::int64_t channel = place.at - place.pixel * g.one.channels;
    return {partial[place.at], rstds[g.row(place.pixel / g.one.parts, channel)]};
  }
  __device__ void add(const Packs& packs, float2 (&sums)[1]) const {
    add_pair(sums[0], {packs.sums.x, packs.sums.y * packs.rstd});
  }
};

template <int N, class T>
__global__ void MEZZO_THREE_BLOCKS group_grad_kernel(SampleGrid g, GroupInputs in,
                                                     const float2* taken, GroupGradTensors<T> all) {
  const ChannelRange range(g.one, N, Direction::kBackwards);
  if (!range.has_channels()) return;
  for (std::int64_t sample = blockIdx.z; sample < g.samples; sample += gridDim.z) {
    const GroupGradTensors<T> t = all.of(sample * g.size());
    float means[N];
    float scales[N];
    float2 less[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const std::int64_t channel = range.channel() + k;
      const std::int64_t row = g.row(sample, channel);
      means[k] = in.means[row];
      scales[k] = in.rstds[row] * in.weight_of(channel);
      less[k] = taken[row];
    }
    range.for_pixels<1>([&](const Place& place) { return read_group_grad<N>(t, place); },
                        [&](const GroupGradPacks<N, T>& packs, const Place& place) {
                          float grads[N];
#pragma unroll
                          for (int k = 0; k < N; ++k) {
                            const float off = widen(packs.x.values[k]) - means[k];
                            const float common = fmaf(off, less[k].y, less[k].x);
                            grads[k] = fmaf(widen(packs.grad.values[k]), scales[k], -common);
                          }
                          store(grads, t.grad_x + place.at);
                        });
  }
}

template <class Sum>
Scratch partial_sums(const Launch& launch, const SampleGrid& g) {
  const std::int64_t count = std::max<std::int64_t>(g.samples * g.partial_size(), 1);
  return Scratch(static_cast<std::size_t>(count) * sizeof(Sum), launch.device());
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<GroupNormAttrs>();
  const Tensor x = dense(args.input(In::kX), args.output().format());
  const Tensor weight = args.has(In::kWeight) ? dense_f32(args.input(In::kWeight)) : Tensor();
  const Tensor bias = args.has(In::kBias) ? dense_f32(args.input(In::kBias)) : Tensor();
  auto* means = out<float>(args.output(1));
  auto* rstds = out<float>(args.output(2));
  const GroupInputs inputs{means, rstds, in_or_null<float>(weight), in_or_null<float>(bias)};
  const GroupSizes sizes(x.shape(), attrs.groups);
  const Launch launch(x);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    auto* y = out<T>(args.output());
    visit_packs<T>(sizes.channels, {x.address(), y}, [&]<int N>() {
      const SampleGrid g = sample_grid(launch, sizes, N);
      const Scratch partial = partial_sums<Moments>(launch, g);
      group_moments_kernel<N>
          <<<g.grid(), g.one.block(), 0, launch.stream()>>>(g, in<T>(x), partial.as<Moments>());
      check_launch("group_moments_kernel");
      for_dense_rows(
          launch,
          JoinMoments{g, partial.as<const Moments>(), static_cast<float>(attrs.eps), means, rstds},
          g.partial_rows());
      group_apply_kernel<N>
          <<<g.grid(), g.one.block(), 0, launch.stream()>>>(g, inputs, in<T>(x), y);
      check_launch("group_apply_kernel");
    });
  });
}

template <int N, class T>
void run_grad_packs(const Launch& launch, const KernelArgs& args, const GroupSizes& sizes,
                    const GroupInputs& inputs, const GroupGradTensors<T>& t) {
  const SampleGrid g = sample_grid(launch, sizes, N);
  const Scratch partial = partial_sums<float2>(launch, g);
  if (g.samples > 0) {
    group_sums_kernel<N>
        <<<g.grid(), g.one.block(), 0, launch.stream()>>>(g, inputs, t, partial.as<float2>());
    check_launch("group_sums_kernel");
  }
  add_up_rows<1>(launch, ChannelTerms{g, partial.as<const float2>(), inputs.rstds},
                 ChannelGrads{out<float>(args.output(1)), out<float>(args.output(2))},
                 g.samples * g.one.parts, g.one.channels);
  if (g.samples == 0) return;
  const Scratch taken(static_cast<std::size_t>(g.samples * g.groups) * sizeof(float2),
                      launch.device());
  for_dense_rows(launch, JoinSums{g, inputs, partial.as<const float2>(), taken.as<float2>()},
                 g.partial_rows());
  group_grad_kernel<N>
      <<<g.grid(), g.one.block(), 0, launch.stream()>>>(g, inputs, taken.as<const float2>(), t);
  check_launch("group_grad_kernel");
}

void run_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(GradIn::kGrad), args.output().format());
  const Tensor x = dense(args.input(GradIn::kX), args.output().format());
  const Tensor weight =
      args.has(GradIn::kWeight) ? dense_f32(args.input(GradIn::kWeight)) : Tensor();
  const Tensor means = dense_f32(args.input(GradIn::kMean));
  const Tensor rstds = dense_f32(args.input(GradIn::kRstd));
  const GroupInputs inputs{in<float>(means), in<float>(rstds), in_or_null<float>(weight), nullptr};
  const GroupSizes sizes(x.shape(), args.attrs<GroupNormAttrs>().groups);
  const Launch launch(x);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const GroupGradTensors<T> t{in<T>(grad), in<T>(x), out<T>(args.output())};
    visit_packs<T>(sizes.channels, {t.grad, t.x, t.grad_x},
                   [&]<int N>() { run_grad_packs<N>(launch, args, sizes, inputs, t); });
  });
}

}  // namespace

extern const KernelList group_norm{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList group_norm_grad{{{{"cuda", float_dtypes_only, run_grad}}}};

}  // namespace mezzo::kernels::cuda
