// Images of few channels in shared memory, as the window of a convolution moves over them.
//
// With three channels a window of 7x7 is 147 numbers: a row of a matrix for Tensor Cores, if it lay
// in memory. Written out, these rows would be six times the images and twice the result. So blocks
// read the rows of an image under one strip of output pixels to shared memory, and threads pick the
// numbers of their fragments from there: neighbouring pixels lie stride * channels apart, and each
// number of a window has a place of its own.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/few_channels.h"
#include "mezzo/kernels/cuda/tensor_core.cuh"

namespace mezzo::kernels::cuda {

inline constexpr int kStrip = 64;          // output pixels that a block has at a time
inline constexpr int kFilterTile = 64;     // filters of a block
inline constexpr int kMostColumns = 176;   // numbers of a window
inline constexpr int kMostStaged = 4096;   // elements of images in shared memory
inline constexpr int kStagedPack = 8;      // elements that are copied at once

using Bits = std::uint16_t;  // of bf16 and f16
using BitsPack = Pack<Bits, kStagedPack>;
using StagedImages = BitsPack[kMostStaged / kStagedPack];

__host__ __device__ constexpr int round_up(int count, int step) {
  return (count + step - 1) / step * step;
}

// Sizes and strides in elements.
struct FewChannels {
  std::int64_t images, image_h, image_row;  // a row has all channels of its pixels
  std::int64_t out_h, out_w;
  int filters, channels;
  int kernel_h, kernel_w, columns;  // a window's numbers, kernel_h * kernel_w * channels
  int stride_h, top, dilation_h;    // rows
  int stride, left, dilation;       // along a row
  int shift;                        // staged before the first, so that packs are read where they lie
  int pitch;                        // from one staged row to the next
  int strips;                       // of a row of output pixels
  std::int64_t units, per_block;    // strips of all images, and those of a block

  FewChannels(const ConvProblem& p, std::int64_t most_blocks)
      : images(p.x[0]),
        image_h(p.x[2]),
        image_row(p.x[3] * p.x[1]),
        out_h(p.y[2]),
        out_w(p.y[3]),
        filters(static_cast<int>(p.weight[0])),
        channels(static_cast<int>(p.x[1])),
        kernel_h(static_cast<int>(p.weight[2])),
        kernel_w(static_cast<int>(p.weight[3])),
        columns(kernel_h * kernel_w * channels),
        stride_h(static_cast<int>(p.attrs.stride.h)),
        top(static_cast<int>(p.attrs.padding.top)),
        dilation_h(static_cast<int>(p.attrs.dilation.h)),
        stride(static_cast<int>(p.attrs.stride.w) * channels),
        left(static_cast<int>(p.attrs.padding.left) * channels),
        dilation(static_cast<int>(p.attrs.dilation.w) * channels),
        shift(round_up(left, kStagedPack) - left),
        pitch(round_up(shift + (kStrip - 1) * stride + (kernel_w - 1) * dilation + channels,
                       kStagedPack)),
        strips(static_cast<int>((out_w + kStrip - 1) / kStrip)),
        units(images * out_h * strips),
        per_block((units + most_blocks - 1) / most_blocks) {}

  std::int64_t blocks() const { return (units + per_block - 1) / per_block; }

  // Where a window's number lies among the staged elements, for the strip's first pixel.
  __device__ int place_of(int column) const {
    const int of_row = kernel_w * channels;
    const int in_row = column % of_row;
    return column / of_row * pitch + in_row / channels * dilation + in_row % channels + shift;
  }
};

// A strip of one row of output pixels.
struct Strip {
  std::int64_t image;
  int row, first;  // output pixels
  int pixels;      // less than kStrip in a row's last

  __device__ Strip(const FewChannels& g, std::int64_t unit) {
    const std::int64_t of_rows = unit / g.strips;
    image = of_rows / g.out_h;
    row = static_cast<int>(of_rows % g.out_h);
    first = static_cast<int>(unit % g.strips) * kStrip;
    pixels = static_cast<int>(g.out_w) - first;
    if (pixels > kStrip) pixels = kStrip;
  }
  // Of the output's elements, of which each pixel has `filters`.
  __device__ std::int64_t first_pixel(const FewChannels& g) const {
    return (image * g.out_h + row) * g.out_w + first;
  }
};

// Has the block's threads read the rows of images under a strip, with zeros around the images.
// kPacked: rows of images are whole packs.
template <bool kPacked>
__device__ void stage_images(const FewChannels& g, const Strip& strip, const Bits* x,
                             StagedImages& staged) {
  const int packs = g.pitch / kStagedPack;
  for (int i = threadIdx.x; i < g.kernel_h * packs; i += blockDim.x) {
    const int tap = i / packs;
    const std::int64_t row = static_cast<std::int64_t>(strip.row) * g.stride_h - g.top +
                             tap * g.dilation_h;
    const bool has_row = row >= 0 && row < g.image_h;
    const Bits* from = x + (strip.image * g.image_h + row) * g.image_row;
    const std::int64_t first = static_cast<std::int64_t>(strip.first) * g.stride - g.left -
                               g.shift + i % packs * kStagedPack;
    if constexpr (kPacked) {
      const bool inside = has_row && first >= 0 && first < g.image_row;
      copy_beside(&staged[i], inside ? from + first : x, inside);
    } else {
      BitsPack pack;
      for (int k = 0; k < kStagedPack; ++k) {
        const std::int64_t at = first + k;
        pack.values[k] = has_row && at >= 0 && at < g.image_row ? from[at] : Bits{0};
      }
      staged[i] = pack;
    }
  }
}

__device__ inline std::uint32_t pair_of(Bits first, Bits second) {
  return first | static_cast<std::uint32_t>(second) << 16;
}

}  // namespace mezzo::kernels::cuda
