// Convolutions of images with few channels: a matrix of output pixels by filters, summed over a
// window's elements. A thread block keeps its filters in shared memory and goes through the strips;
// each of its warps has 16 pixels of a strip.
#include "mezzo/kernels/cuda/few_channels.cuh"

namespace mezzo::kernels::cuda {
namespace {

constexpr int kWarpPixels = 16;
constexpr int kBlock = kStrip / kWarpPixels * 32;  // threads
constexpr int kStepColumns = 16;                   // columns per Tensor Core step
constexpr int kTilesAcross = kFilterTile / 8;
constexpr int kResident = 4;  // blocks per multiprocessor
// The distance between filters, chosen so that eight rows of a matrix are in different banks.
constexpr int kFilterPitch = kMostColumns + 8;

using StagedFilters = BitsPack[kFilterTile * kFilterPitch / kStagedPack];

// The filter whose sums are in column `column` of a row of tiles. A lane has columns 2q and 2q + 1
// of each tile. With this order, these are eight adjacent filters of each half: 16 bytes of the
// result.
__device__ inline int filter_of(int column) {
  const int tile = column / 8;
  return tile / 4 * 32 + column % 8 / 2 * 8 + tile % 4 * 2 + column % 2;
}

__device__ void stage_filters(const FewChannels& g, const Bits* weight, StagedFilters& staged) {
  Bits* to = staged[0].values;
  for (int i = threadIdx.x; i < kFilterTile * kMostColumns; i += kBlock) {
    const int row = i / kMostColumns;
    const int column = i % kMostColumns;
    const int filter = blockIdx.y * kFilterTile + filter_of(row);
    const bool inside = filter < g.filters && column < g.columns;
    to[row * kFilterPitch + column] =
        inside ? weight[static_cast<std::int64_t>(filter) * g.columns + column] : Bits{0};
  }
}

// Stores a lane's sums for an output pixel, from a multiple of 8 filters on.
template <bool kPacked, class T>
__device__ void store_filters(const FewChannels& g, const float (&sums)[8], const float* bias,
                              int filter, T* y) {
  if (filter >= g.filters) return;
  float values[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const bool has_bias = bias != nullptr && (kPacked || filter + k < g.filters);
    values[k] = has_bias ? sums[k] + bias[filter + k] : sums[k];
  }
  if constexpr (kPacked) {
    store(values, y + filter);
  } else {
    for (int k = 0; k < 8 && filter + k < g.filters; ++k) y[filter + k] = narrow<T>(values[k]);
  }
}

template <bool kPacked, class T>
__global__ void __launch_bounds__(kBlock, kResident)
    convolve_kernel(FewChannels g, const Bits* x, const Bits* weight, const float* bias, T* y) {
  __shared__ StagedImages images[kBuffers];
  __shared__ StagedFilters filters;
  __shared__ std::uint32_t places[kMostColumns / 2];  // per pair of columns
  const int warp_pixel = threadIdx.x / 32 * kWarpPixels;
  const int lane = threadIdx.x % 32;
  const int pixel = warp_pixel + lane / 4;
  stage_filters(g, weight, filters);
  for (int i = threadIdx.x; i < kMostColumns / 2; i += kBlock) {
    const auto place = [&](int column) {
      return static_cast<Bits>(column < g.columns ? g.place_of(column) : 0);
    };
    places[i] = pair_of(place(2 * i), place(2 * i + 1));
  }

  SumFragment sums[kTilesAcross];
  // Adds the products of 16 columns. kWhole: none is beyond the window. There the weights are
  // zeros, but a zero would not cancel an infinity or NaN in the image.
  const auto add_step = [&]<bool kWhole>(const Bits* image, int step) {
    const int column = step * kStepColumns + lane % 4 * 2;
    // Columns `right` and `right` + 1 of the pixel that is `down` rows of the matrix below.
    const auto pair = [&](int right, int down) {
      const std::uint32_t at = places[(column + right) / 2];
      const Bits* row = image + down * g.stride;
      if constexpr (kWhole) return pair_of(row[at & 0xffffU], row[at >> 16]);
      const int left = g.columns - column - right;
      return pair_of(left > 0 ? row[at & 0xffffU] : Bits{0}, left > 1 ? row[at >> 16] : Bits{0});
    };
    const LeftFragment a{pair(0, 0), pair(0, 8), pair(8, 0), pair(8, 8)};
#pragma unroll
    for (int t = 0; t < kTilesAcross; t += 2) {
      LeftFragment b;  // of two tiles
      const int row = (t + lane / 16) * 8 + lane % 8;
      load_matrices(
          b, filters[0].values + row * kFilterPitch + step * kStepColumns + lane / 8 % 2 * 8);
      const RightFragment first{b[0], b[1]};
      const RightFragment second{b[2], b[3]};
      multiply_add(sums[t], a, first, T());
      multiply_add(sums[t + 1], a, second, T());
    }
  };
  const auto convolve = [&](const Strip& strip, int in) {
    const int pixels = strip.pixels(g);
    if (warp_pixel >= pixels) return;
#pragma unroll
    for (int t = 0; t < kTilesAcross; ++t) {
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[t][k] = 0;
    }
    const Bits* image = images[in][0].values + pixel * g.stride;
    int step = 0;
#pragma unroll 2
    for (; step < g.columns / kStepColumns; ++step) add_step.template operator()<true>(image, step);
    if (g.columns % kStepColumns != 0) add_step.template operator()<false>(image, step);
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      if (pixel + down * 8 >= pixels) continue;
      T* to = y + (strip.first_pixel(g) + pixel + down * 8) * g.filters;
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float values[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) values[k] = sums[side * 4 + k / 2][down * 2 + k % 2];
        const int filter = blockIdx.y * kFilterTile + side * 32 + lane % 4 * 8;
        store_filters<kPacked>(g, values, bias, filter, to);
      }
    }
  };

  for_strips(
      g, [&](const Strip& strip, int to) { stage_images<kPacked>(g, strip, x, images[to]); },
      convolve);
}

template <class T>
void convolve(const Launch& launch, const FewChannels& g, const ConvPointers& at,
              const float* bias) {
  const auto* x = static_cast<const Bits*>(at.x);
  const auto* weight = static_cast<const Bits*>(at.weight);
  auto* y = static_cast<T*>(at.y);
  const dim3 grid = g.grid();
  if (g.is_packed(x, y)) {
    convolve_kernel<true><<<grid, kBlock, 0, launch.stream()>>>(g, x, weight, bias, y);
  } else {
    convolve_kernel<false><<<grid, kBlock, 0, launch.stream()>>>(g, x, weight, bias, y);
  }
  check_launch("convolve_kernel");
}

}  // namespace

Support takes_few_channels(const ConvProblem& p) {
  if (!is_lower(p.dtype)) return Support::no("the operands are f32");
  if (p.attrs.groups != 1 || p.x[1] >= kStagedPack) {
    return Support::no("only for images of fewer than eight channels, without groups");
  }
  const std::int64_t columns = p.weight[1] * p.weight[2] * p.weight[3];
  if (columns > kMostColumns) return Support::no("the window has too many elements");
  const std::int64_t across =
      (kStrip - 1) * p.attrs.stride.w + (p.weight[3] - 1) * p.attrs.dilation.w + 1;
  const std::int64_t row = across * p.x[1] + 2 * kStagedPack;  // rounded up to packs at both ends
  const bool fits = row * p.weight[2] <= kMostStaged && p.weight[0] <= 1 << 20 &&
                    p.attrs.padding.left <= kMostStaged && p.attrs.padding.top <= 1 << 20;
  return fits ? Support::yes() : Support::no("the image rows for 64 output pixels do not fit");
}

void convolve_few_channels(const Launch& launch, const ConvProblem& p, const ConvPointers& at,
                           const float* bias) {
  const FewChannels g(p, kResident * launch.context().multiprocessors());
  visit_lower_dtype(p.dtype, [&]<class T>() { convolve<T>(launch, g, at, bias); });
}

}  // namespace mezzo::kernels::cuda
