// Images of few channels in shared memory, under the moving window of a convolution.
//
// With three channels, a window of 7x7 has 147 elements: a row of a matrix for Tensor Cores. im2col
// would write rows with six times the elements of the images, and twice those of the result. So
// thread blocks copy the image rows under a strip of output pixels to shared memory, and threads
// pick the elements of their fragments from there. Adjacent pixels are stride * channels apart, and
// each element of a window has a fixed place.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/few_channels.h"
#include "mezzo/kernels/cuda/tensor_core.cuh"

namespace mezzo::kernels::cuda {

inline constexpr int kStrip = 64;         // output pixels of a thread block at a time
inline constexpr int kFilterTile = 64;    // filters of a thread block
inline constexpr int kMostColumns = 176;  // elements of a window
inline constexpr int kMostStaged = 3072;  // elements of images in a buffer
inline constexpr int kStagedPack = 8;     // elements that are copied at once
inline constexpr int kBuffers = 3;        // computing a strip takes less time than loading one

using Bits = std::uint16_t;  // the storage of bf16 and f16
using BitsPack = Pack<Bits, kStagedPack>;
using StagedImages = BitsPack[kMostStaged / kStagedPack];

__host__ __device__ constexpr int round_up(int count, int step) {
  return (count + step - 1) / step * step;
}

// Sizes and strides in elements.
struct FewChannels {
  std::int64_t images;
  int image_h, image_row;  // a row has all channels of its pixels
  int out_h, out_w;
  int filters, channels;
  int kernel_h, kernel_w, columns;  // columns: elements of a window, kernel_h * kernel_w * channels
  int stride_h, top, dilation_h;    // rows
  int stride, left, dilation;       // along a row
  int shift;                        // elements before the first, so that packs are read aligned
  int pitch;                        // between staged rows
  int strips;                       // per row of output pixels
  std::int64_t units, per_block;    // strips of all images, and of a thread block

  FewChannels(const ConvProblem& p, std::int64_t most_blocks)
      : images(p.x[0]),
        image_h(static_cast<int>(p.x[2])),
        image_row(static_cast<int>(p.x[3] * p.x[1])),
        out_h(static_cast<int>(p.y[2])),
        out_w(static_cast<int>(p.y[3])),
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
        strips((out_w + kStrip - 1) / kStrip),
        units(images * out_h * strips),
        per_block((units + most_blocks - 1) / most_blocks) {}

  std::int64_t blocks() const { return (units + per_block - 1) / per_block; }
  dim3 grid() const {
    return {static_cast<unsigned>(blocks()),
            static_cast<unsigned>((filters + kFilterTile - 1) / kFilterTile)};
  }
  // Whether rows of x and pixels of y are whole packs.
  bool is_packed(const Bits* x, const void* y) const {
    return image_row % kStagedPack == 0 && filters % kStagedPack == 0 &&
           is_aligned<kStagedPack>(x) && is_aligned<kStagedPack>(static_cast<const Bits*>(y));
  }

  // The place of a window's element among the staged elements, for the strip's first pixel.
  __device__ int place_of(int column) const {
    const int of_row = kernel_w * channels;
    const int in_row = column % of_row;
    return column / of_row * pitch + in_row / channels * dilation + in_row % channels + shift;
  }
};

// A strip: some output pixels of a row.
class Strip {
 public:
  __device__ Strip(const FewChannels& g, std::int64_t unit)
      : image_(unit / g.strips / g.out_h),
        row_(static_cast<int>(unit / g.strips % g.out_h)),
        place_(static_cast<int>(unit % g.strips)) {}

  // Moves to the next strip without divisions, which take as long as a strip's products.
  __device__ void advance(const FewChannels& g) {
    if (++place_ < g.strips) return;
    place_ = 0;
    if (++row_ < g.out_h) return;
    row_ = 0;
    ++image_;
  }

  __device__ std::int64_t image() const { return image_; }
  __device__ int row() const { return row_; }
  __device__ int first() const { return place_ * kStrip; }  // output pixel of the row
  __device__ int pixels(const FewChannels& g) const {       // less than kStrip for a row's last
    const int left = g.out_w - first();
    return left < kStrip ? left : kStrip;
  }
  // The index of the first pixel among all output pixels.
  __device__ std::int64_t first_pixel(const FewChannels& g) const {
    return (image_ * g.out_h + row_) * g.out_w + first();
  }

 private:
  std::int64_t image_;
  int row_, place_;
};

// Copies the image rows under a strip to shared memory, on all threads of the block, one row per
// warp; zeros surround the images. kPacked: rows of images are whole packs.
template <bool kPacked>
__device__ void stage_images(const FewChannels& g, const Strip& strip, const Bits* x,
                             StagedImages& staged) {
  const int packs = g.pitch / kStagedPack;
  const int first = strip.first() * g.stride - g.left - g.shift;
  for (int tap = threadIdx.x / 32; tap < g.kernel_h; tap += blockDim.x / 32) {
    const int row = strip.row() * g.stride_h - g.top + tap * g.dilation_h;
    const bool has_row = row >= 0 && row < g.image_h;
    const Bits* from = x + (strip.image() * g.image_h + row) * g.image_row;
    for (int i = threadIdx.x % 32; i < packs; i += 32) {
      const int at = first + i * kStagedPack;
      BitsPack& to = staged[tap * packs + i];
      if constexpr (kPacked) {
        const bool inside = has_row && at >= 0 && at < g.image_row;
        copy_beside(&to, inside ? from + at : x, inside);
      } else {
        BitsPack pack;
        for (int k = 0; k < kStagedPack; ++k) {
          const bool inside = has_row && at + k >= 0 && at + k < g.image_row;
          pack.values[k] = inside ? from[at + k] : Bits{0};
        }
        to = pack;
      }
    }
  }
}

// Goes through a thread block's strips. stage(strip, buffer) queues the copies of a strip to one of
// kBuffers buffers. use(strip, buffer) computes with it while the next strips are copied.
template <class Stage, class Use>
__device__ void for_strips(const FewChannels& g, const Stage& stage, const Use& use) {
  const std::int64_t first = blockIdx.x * g.per_block;
  const int count = static_cast<int>(g.units - first < g.per_block ? g.units - first : g.per_block);
  Strip here(g, first);
  Strip ahead = here;
  const auto stage_next = [&](int number) {
    if (number < count) {
      stage(ahead, number % kBuffers);
      ahead.advance(g);
    }
    end_of_copies();  // a group without copies counts as well
  };
  for (int i = 0; i < kBuffers - 1; ++i) stage_next(i);
  for (int i = 0; i < count; ++i) {
    wait_for_copies<kBuffers - 2>();
    __syncthreads();  // all threads see the copies, and are done with the next buffer
    stage_next(i + kBuffers - 1);
    use(here, i % kBuffers);
    here.advance(g);
  }
}

__device__ inline std::uint32_t pair_of(Bits first, Bits second) {
  return first | static_cast<std::uint32_t>(second) << 16;
}

}  // namespace mezzo::kernels::cuda
