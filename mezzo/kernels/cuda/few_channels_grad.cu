// Weight gradients for images with few channels: a matrix of filters by windows, summed over all
// output pixels. A thread block sums a range of strips; its warps share the columns.
#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/few_channels.cuh"

namespace mezzo::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kFilterPacks = kFilterTile / kStagedPack;
// The distance between the gradients of pixels, chosen so that eight rows of a matrix are in
// different banks.
constexpr int kGradPacks = kFilterPacks + 1;
constexpr int kTilesDown = kFilterTile / 16;
constexpr int kResident = 2;  // blocks per multiprocessor

using StagedGrads = BitsPack[kStrip * kGradPacks];

// Copies the gradients of a strip to shared memory, on all threads of the block; zeros follow its
// pixels and the filters.
template <bool kPacked>
__device__ void stage_grads(const FewChannels& g, const Strip& strip, const Bits* grad,
                            StagedGrads& staged) {
  const int first_filter = blockIdx.y * kFilterTile;
  const int pixels = strip.pixels(g);
  const Bits* from = grad + strip.first_pixel(g) * g.filters;
  for (int i = threadIdx.x; i < kStrip * kFilterPacks; i += kThreads) {
    const int pixel = i / kFilterPacks;
    const int filter = first_filter + i % kFilterPacks * kStagedPack;
    BitsPack& to = staged[pixel * kGradPacks + i % kFilterPacks];
    const std::int64_t at = static_cast<std::int64_t>(pixel) * g.filters + filter;
    if constexpr (kPacked) {
      const bool inside = pixel < pixels && filter < g.filters;
      copy_beside(&to, inside ? from + at : grad, inside);
    } else {
      BitsPack pack;
      for (int k = 0; k < kStagedPack; ++k) {
        pack.values[k] = pixel < pixels && filter + k < g.filters ? from[at + k] : Bits{0};
      }
      to = pack;
    }
  }
}

// kTiles: tiles of eight columns per warp.
template <int kTiles, bool kPacked, class T>
__global__ void __launch_bounds__(kThreads, kResident)
    sum_kernel(FewChannels g, const Bits* x, const Bits* grad, float* partial, T of) {
  __shared__ StagedImages images[kBuffers];
  __shared__ StagedGrads grads[kBuffers];
  const int lane = threadIdx.x % 32;
  const int first_column = threadIdx.x / 32 * kTiles * 8;
  int places[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int column = first_column + t * 8 + lane / 4;
    places[t] = (column < g.columns ? g.place_of(column) : 0) + lane % 4 * 2 * g.stride;
  }
  SumFragment sums[kTilesDown][kTiles] = {};

  // Adds the products of 16 pixels. kWhole: none is beyond the row's end. There are other elements
  // of the image, and a zero gradient would not cancel an infinity or NaN among them.
  const auto add_step = [&]<bool kWhole>(int in, int step, int pixels) {
    const Bits* image = images[in][0].values + step * 16 * g.stride;
    LeftFragment a[kTilesDown];
    const int pixel_of_row = step * 16 + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i) {
      load_transposed(a[i], &grads[in][pixel_of_row * kGradPacks + i * 2 + lane / 8 % 2]);
    }
    const auto number = [&](int t, int p) {
      if (!kWhole && step * 16 + lane % 4 * 2 + p >= pixels) return Bits{0};
      return image[places[t] + p * g.stride];
    };
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const RightFragment b{pair_of(number(t, 0), number(t, 1)),
                            pair_of(number(t, 8), number(t, 9))};
#pragma unroll
      for (int i = 0; i < kTilesDown; ++i) multiply_add(sums[i][t], a[i], b, of);
    }
  };

  for_strips(
      g,
      [&](const Strip& strip, int to) {
        stage_images<kPacked>(g, strip, x, images[to]);
        stage_grads<kPacked>(g, strip, grad, grads[to]);
      },
      [&](const Strip& strip, int in) {
        if (first_column >= g.columns) return;
        const int pixels = strip.pixels(g);
        int step = 0;
#pragma unroll 2
        for (; step < pixels / 16; ++step) add_step.template operator()<true>(in, step, pixels);
        if (pixels % 16 != 0) add_step.template operator()<false>(in, step, pixels);
      });

  float* to = partial + static_cast<std::int64_t>(blockIdx.x) * g.filters * g.columns;
#pragma unroll
  for (int i = 0; i < kTilesDown; ++i) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int filter = blockIdx.y * kFilterTile + i * 16 + lane / 4 + k / 2 * 8;
        const int column = first_column + t * 8 + lane % 4 * 2 + k % 2;
        if (filter < g.filters && column < g.columns) {
          to[static_cast<std::int64_t>(filter) * g.columns + column] = sums[i][t][k];
        }
      }
    }
  }
}

template <class Out>
struct WeightGrad {
  Out* to;

  __device__ static void join(float& sum, float other) { sum += other; }
  __device__ void finish(float sum, std::int64_t i) const { to[i] = narrow<Out>(sum); }
};

template <int kTiles, class T>
void sum_strips(const Launch& launch, const FewChannels& g, const ConvPointers& at,
                float* partial) {
  const auto* x = static_cast<const Bits*>(at.x);
  const auto* grad = static_cast<const Bits*>(at.y);
  const dim3 grid = g.grid();
  if (g.is_packed(x, grad)) {
    sum_kernel<kTiles, true><<<grid, kThreads, 0, launch.stream()>>>(g, x, grad, partial, T());
  } else {
    sum_kernel<kTiles, false><<<grid, kThreads, 0, launch.stream()>>>(g, x, grad, partial, T());
  }
  check_launch("sum_kernel");
}

template <class T>
void sum_columns(const Launch& launch, const FewChannels& g, const ConvPointers& at,
                 float* partial) {
  constexpr int kTileOfAll = kWarps * 8;  // columns if each warp has one tile
  static_assert(kMostColumns <= 3 * kTileOfAll);
  if (g.columns <= kTileOfAll) return sum_strips<1, T>(launch, g, at, partial);
  if (g.columns <= 2 * kTileOfAll) return sum_strips<2, T>(launch, g, at, partial);
  sum_strips<3, T>(launch, g, at, partial);
}

}  // namespace

void sum_few_channels(const Launch& launch, const ConvProblem& p, const ConvPointers& at) {
  const FewChannels g(p, kResident * launch.context().multiprocessors());
  ChannelGrid parts;
  parts.channels = std::int64_t{g.filters} * g.columns;
  parts.parts = g.blocks();
  const Scratch partial(static_cast<std::size_t>(parts.parts * parts.channels) * sizeof(float),
                        launch.device());
  visit_lower_dtype(p.dtype,
                    [&]<class T>() { sum_columns<T>(launch, g, at, partial.as<float>()); });
  visit_vector_dtype(p.result, [&]<class Out>() {
    combine_columns(launch, parts, WeightGrad<Out>{static_cast<Out*>(at.weight)},
                    partial.as<const float>());
  });
}

}  // namespace mezzo::kernels::cuda
