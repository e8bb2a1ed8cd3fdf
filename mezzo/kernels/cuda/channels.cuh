// Loops down the columns of matrices, for channels of images and features of rows.
//
// Channels-last images are a matrix of pixels and channels. A thread has some adjacent channels, 16
// bytes of them if they divide evenly. It keeps their values in registers and goes down the pixels.
// Thread blocks that share channels have a part of the pixels each.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

struct ChannelGrid {
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
  int across = 1;  // threads side by side in a thread block; a power of two
  std::int64_t parts = 1;
  std::int64_t per_part = 1;  // pixels
  int columns = 1;            // thread blocks side by side

  dim3 grid() const { return {static_cast<unsigned>(columns), static_cast<unsigned>(parts)}; }
  dim3 block() const {
    return {static_cast<unsigned>(across), static_cast<unsigned>(kThreads / across)};
  }
};

// The grid for threads that have `pack` channels each.
inline ChannelGrid channel_grid(const Launch& launch, std::int64_t pixels, std::int64_t channels,
                                int pack) {
  constexpr std::int64_t kLeastPixels = 8;  // per thread
  // A multiprocessor holds three or four thread blocks, so this is four or three full waves.
  constexpr std::int64_t kBlocksWanted = 12;
  ChannelGrid g;
  g.pixels = pixels;
  g.channels = channels;
  const std::int64_t packs = (g.channels + pack - 1) / pack;
  while (g.across < 32 && g.across < packs) g.across *= 2;
  g.columns = static_cast<int>((packs + g.across - 1) / g.across);
  const std::int64_t down = kThreads / g.across;
  const std::int64_t wanted = kBlocksWanted * launch.context().multiprocessors() / g.columns;
  const std::int64_t possible = g.pixels / (down * kLeastPixels);
  g.parts = std::clamp<std::int64_t>(std::min(wanted, possible), 1, 4096);
  g.per_part = (g.pixels + g.parts - 1) / g.parts;
  return g;
}

// A second pass over images goes backwards. The last pixels of the first pass are still in the
// second-level cache, of which GPUs have tens of megabytes. And the next kernel first reads what
// this one writes last.
enum class Direction { kForwards, kBackwards };

// A thread's channels of one pixel.
struct Place {
  std::int64_t pixel = 0;
  std::int64_t at = 0;  // offset of the first of these channels, in elements
};

// A thread's channels and pixels.
class ChannelRange {
 public:
  __device__ ChannelRange(const ChannelGrid& g, int pack, Direction direction)
      : is_backwards_(direction == Direction::kBackwards),
        pixels_(g.pixels),
        channels_(g.channels),
        channel_((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * pack),
        first_(blockIdx.y * g.per_part + threadIdx.y) {
    const std::int64_t end = (blockIdx.y + std::int64_t{1}) * g.per_part;
    last_ = end < pixels_ ? end : pixels_;
  }

  // False for threads of a thread block beyond the last channel.
  __device__ bool has_channels() const { return channel_ < channels_; }
  __device__ std::int64_t channel() const { return channel_; }

  // Calls use(read(place), place) for each of the thread's pixels; kAhead are read before the first
  // is used.
  template <int kAhead, class Read, class Use>
  __device__ void for_pixels(const Read& read, const Use& use) const {
    const std::int64_t step = blockDim.y;
    for (std::int64_t p = first_; has_channels() && p < last_; p += kAhead * step) {
      decltype(read(Place())) packs[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (p + i * step < last_) packs[i] = read(place(p + i * step));
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (p + i * step < last_) use(packs[i], place(p + i * step));
      }
    }
  }

  // Reads the thread's pixels of x forwards in rounds of kAhead, each a pack of N channels. First
  // calls first(packs, count) with the remainder of whole rounds, at least one pixel, then
  // use(packs) for each whole round. Whole rounds have no conditions and multiply no addresses,
  // which is half of the work in a loop that only sums.
  template <int kAhead, int N, class T, class First, class Use>
  __device__ void for_rounds(const T* x, const First& first, const Use& use) const {
    if (!has_channels() || first_ >= last_) return;
    const unsigned rows = blockDim.y;
    const int turns = static_cast<int>((static_cast<unsigned>(last_ - first_) + rows - 1) / rows);
    const int count = (turns - 1) % kAhead + 1;
    const std::int64_t step = channels_ * rows;
    x += first_ * channels_ + channel_;
    Pack<T, N> some[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i, x += step) {
      if (i >= count) break;
      some[i] = read_stored<N>(x);
    }
    first(some, count);
#pragma unroll 1
    for (int left = turns - count; left > 0; left -= kAhead) {
      Pack<T, N> packs[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i, x += step) packs[i] = read_stored<N>(x);
      use(packs);
    }
  }

 private:
  __device__ Place place(std::int64_t turn) const {
    const std::int64_t pixel = is_backwards_ ? pixels_ - 1 - turn : turn;
    return {pixel, pixel * channels_ + channel_};
  }

  bool is_backwards_;
  std::int64_t pixels_, channels_, channel_, first_, last_;
};

// The number of pixels to read at once if each has that many packs of 16 bytes. With one pack in
// flight per resident thread, memory is not kept busy. With four instead of two single packs, an
// H100 is no faster. An H200, whose memory is faster, is: ResNet-50's step at batch 256 in f16
// takes 32.4 instead of 32.6 ms.
constexpr int pixels_ahead(int packs) { return packs <= 1 ? 4 : packs == 2 ? 2 : 1; }

// Limits registers so that three blocks fit on a multiprocessor. One register too many would leave
// two blocks, and a third less data in flight from memory.
#define MEZZO_THREE_BLOCKS __launch_bounds__(kThreads, 3)
// Four blocks: enough for kernels that only sum one tensor.
#define MEZZO_FOUR_BLOCKS __launch_bounds__(kThreads, 4)

// Sums the values of the threads of a column of the thread block, in a fixed order. Each thread has
// N values: the barriers between the levels cost as much for one as for all. All threads of the
// block must call it. The sums end in the first row's threads, and only these may use them.
template <int N, class T, class Add>
__device__ void add_up_columns(T (&values)[N], T (&shared)[N][kThreads], Add add) {
  const int here = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < N; ++k) shared[k][here] = values[k];
  __syncthreads();
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) {
#pragma unroll
      for (int k = 0; k < N; ++k) add(shared[k][here], shared[k][here + half * blockDim.x]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = shared[k][here];
}

__device__ inline void add_pair(float2& sum, const float2& other) {
  sum.x += other.x;
  sum.y += other.y;
}

// The thread blocks of kernels that sum each channel's parts, of which there may be a thousand.
// They have a few channels side by side and many threads down the parts. One thread per channel
// would wait for memory a thousand times in a row, longer than the pass over the images takes.
inline constexpr int kCombineAcross = 4;
inline dim3 combine_block() { return {kCombineAcross, kThreads / kCombineAcross}; }
inline unsigned combine_blocks(std::int64_t channels) {
  return static_cast<unsigned>((channels + kCombineAcross - 1) / kCombineAcross);
}

// The sum of the parts of channel c, in a fixed order, for the threads of a block's first row.
// Eight parts are read at once, also because of memory latency.
template <class T, class Add>
__device__ T sum_of_parts(const ChannelGrid& g, const T* partial, std::int64_t c,
                          T (&shared)[1][kThreads], Add add) {
  constexpr int kAtOnce = 8;
  T value[1]{};
  const std::int64_t parts = c < g.channels ? g.parts : 0;
  for (std::int64_t part = threadIdx.y; part < parts; part += kAtOnce * blockDim.y) {
    T read[kAtOnce]{};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row = part + i * static_cast<std::int64_t>(blockDim.y);
      if (row < parts) read[i] = partial[row * g.channels + c];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) add(value[0], read[i]);
  }
  add_up_columns(value, shared, add);
  return value[0];
}

// The epilogue of column sums: a Total has join(sum, other), and finish(sum, column), which stores
// a complete sum.

template <class Total, class Sum>
__global__ void combine_columns_kernel(ChannelGrid g, Total total, const Sum* partial) {
  __shared__ Sum shared[1][kThreads];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Sum sum = sum_of_parts(g, partial, column, shared,
                               [](Sum& to, const Sum& other) { Total::join(to, other); });
  if (column < g.channels && threadIdx.y == 0) total.finish(sum, column);
}

template <class Total, class Sum>
void combine_columns(const Launch& launch, const ChannelGrid& g, const Total& total,
                     const Sum* partial) {
  combine_columns_kernel<<<combine_blocks(g.channels), combine_block(), 0, launch.stream()>>>(
      g, total, partial);
  check_launch("combine_columns_kernel");
}

// Sums down a matrix. Terms, for packs of N columns, have a type Sum, which begins as zeros; the
// number kPacks of packs that they read of a row; a type Packs; read(place); and add(packs, sums).
// `partial` is null if one thread block has all rows of its columns.
template <int N, class Terms, class Total, class Sum>
__global__ void MEZZO_THREE_BLOCKS columns_kernel(ChannelGrid g, Terms terms, Total total,
                                                  Sum* partial) {
  __shared__ Sum shared[N][kThreads];
  const ChannelRange range(g, N, Direction::kForwards);
  Sum sums[N] = {};
  range.for_pixels<pixels_ahead(Terms::kPacks)>(
      [&](const Place& place) { return terms.read(place); },
      [&](const typename Terms::Packs& packs, const Place&) { terms.add(packs, sums); });
  add_up_columns(sums, shared, [](Sum& sum, const Sum& other) { Total::join(sum, other); });
  if (!range.has_channels() || threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::int64_t column = range.channel() + k;
    if (partial == nullptr) {
      total.finish(sums[k], column);
    } else {
      partial[blockIdx.y * g.channels + column] = sums[k];
    }
  }
}

// Sums the columns of a dense matrix.
template <int N, class Terms, class Total>
void add_up_rows(const Launch& launch, const Terms& terms, const Total& total, std::int64_t rows,
                 std::int64_t columns) {
  using Sum = typename Terms::Sum;
  const ChannelGrid g = channel_grid(launch, rows, columns, N);
  const auto start = [&](Sum* partial) {
    columns_kernel<N><<<g.grid(), g.block(), 0, launch.stream()>>>(g, terms, total, partial);
    check_launch("columns_kernel");
  };
  if (g.parts == 1) return start(nullptr);
  const Scratch partial(static_cast<std::size_t>(g.parts * columns) * sizeof(Sum), launch.device());
  start(partial.as<Sum>());
  combine_columns(launch, g, total, partial.as<const Sum>());
}

}  // namespace mezzo::kernels::cuda
