// Rounding to eight bits: the largest absolute value of each group of elements that share a scale,
// then the elements themselves. Codes, scales and largest values have the bits of the CPU's.
//
// Nothing waits for the GPU: largest values stay there.
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/kernels/cuda/scaled_rounding.cuh"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Raises *largest to the largest of all patterns of a thread block.
__device__ inline void raise_for_block(unsigned own, unsigned* largest) {
  const unsigned all = Team<kThreads>::all(own, LargerPattern());
  if (threadIdx.x == 0) atomicMax(largest, all);
}

template <int N, class In>
__global__ void largest_kernel(std::int64_t n, const In* x, unsigned* largest) {
  unsigned own = 0;
#pragma unroll 4
  for (std::int64_t i = grid_first() * N; i < n; i += grid_step() * N) {
    float values[N];
    read_piece(x + i, n - i, values);
    own = LargerPattern()(own, largest_pattern(values));
  }
  raise_for_block(own, largest);
}

// A tensor with one scale. `given`: its factor; null: that of `largest`, which is known then.
template <class In, class Out>
struct WholeTensor {
  std::int64_t n = 0;
  const In* x = nullptr;
  const float* given = nullptr;
  unsigned* largest = nullptr;
  Out* codes = nullptr;
  float* scale = nullptr;
};

template <int N, class In, class Out>
__global__ void round_tensor_kernel(WholeTensor<In, Out> call) {
  const float factor = call.given != nullptr ? *call.given : factor_for<Out>(*call.largest);
  const std::int64_t pieces = (call.n + N - 1) / N;
  unsigned own = 0;
  for (std::int64_t piece = grid_first(); piece < pieces; piece += grid_step()) {
    // From the end: what was read last for the largest value is still in the second-level cache.
    const std::int64_t i = (pieces - 1 - piece) * N;
    float values[N];
    read_piece(call.x + i, call.n - i, values);
    own = LargerPattern()(own, largest_pattern(values));
    write_piece(values, factor, call.n - i, call.codes + i);
  }
  if (grid_first() == 0) *call.scale = 1 / factor;
  if (call.given != nullptr) raise_for_block(own, call.largest);
}

// Lines are rows: a team reads its row twice, the second time from the caches.
template <int N, class In, class Out>
struct RoundRow {
  const In* x = nullptr;
  Out* codes = nullptr;
  float* scales = nullptr;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const In* const from = x + row * rows.size;
    Out* const to = codes + row * rows.size;
    unsigned own = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      read_piece(from + j, rows.size - j, values);
      own = LargerPattern()(own, largest_pattern(values));
    });
    const float factor = factor_for<Out>(Of::all(own, LargerPattern()));
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      read_piece(from + j, rows.size - j, values);
      write_piece(values, factor, rows.size - j, to + j);
    });
    if (Of::lane() == 0) scales[row] = 1 / factor;
  }
};

// Blocks lie along rows: kBlock / N neighbouring threads share each, so that it is read once.
template <int N, class In, class Out>
struct RoundRowOfBlocks {
  const In* x = nullptr;
  Out* codes = nullptr;
  std::uint8_t* scales = nullptr;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    constexpr int kSharing = static_cast<int>(kBlock) / N;
    const std::int64_t blocks = (rows.size + kBlock - 1) / kBlock;
    // All threads of a warp take part in every exchange, those past the end as well.
    for (std::int64_t first = 0; first < rows.size; first += Of::kSize * N) {
      const std::int64_t j = first + Of::lane() * N;
      float values[N];
      read_piece(x + row * rows.size + j, rows.size - j, values);
      unsigned largest = largest_pattern(values);
#pragma unroll
      for (int lanes = 1; lanes < kSharing; lanes *= 2) {
        largest = LargerPattern()(largest, __shfl_xor_sync(0xffffffffU, largest, lanes));
      }
      const std::uint8_t code = block_code(std::bit_cast<float>(largest), kDTypeOf<Out>);
      write_piece(values, block_factor(code), rows.size - j, codes + row * rows.size + j);
      if (Of::lane() % kSharing == 0 && j < rows.size) scales[row * blocks + j / kBlock] = code;
    }
  }
};

// A thread block for lines and blocks along columns: 32 threads beside each other, with N columns
// each, and kDown below each other.
constexpr int kBeside = 32;
constexpr int kDown = kThreads / kBeside;

// A dense matrix, cut into tiles of kBeside * N columns and `height` rows. One without rows is a
// row of empty tiles, so that its columns get their scales.
template <int N>
struct Tiles {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t height = kBlock;

  __host__ __device__ std::int64_t across() const {
    return (columns + kBeside * N - 1) / (kBeside * N);
  }
  __host__ __device__ std::int64_t count() const {
    return across() * (rows == 0 ? 1 : (rows + height - 1) / height);
  }
  __device__ std::int64_t first_row(std::int64_t tile) const { return tile / across() * height; }
  // This thread's first column.
  __device__ std::int64_t column(std::int64_t tile) const {
    return tile % across() * (kBeside * N) + threadIdx.x * N;
  }
};

// The patterns that the threads of a block have found for each column of a tile.
template <int N>
struct OfColumns {
  unsigned patterns[kDown][N][kBeside];

  __device__ void put(const unsigned (&own)[N]) {
    for (int k = 0; k < N; ++k) patterns[threadIdx.y][k][threadIdx.x] = own[k];
  }
  __device__ unsigned largest(int k) const {
    unsigned all = patterns[0][k][threadIdx.x];
    for (int down = 1; down < kDown; ++down) {
      all = LargerPattern()(all, patterns[down][k][threadIdx.x]);
    }
    return all;
  }
};

// Blocks lie along columns. A tile is one block high, and each thread keeps its elements.
template <int N, class In, class Out>
__global__ void round_column_blocks_kernel(Tiles<N> tiles, const In* x, Out* codes,
                                           std::uint8_t* scales) {
  constexpr int kRows = static_cast<int>(kBlock) / kDown;
  __shared__ OfColumns<N> shared;
  for (std::int64_t tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    const std::int64_t column = tiles.column(tile);
    const std::int64_t row = tiles.first_row(tile) + threadIdx.y * kRows;
    const auto left_in = [&](int r) { return row + r < tiles.rows ? tiles.columns - column : 0; };
    float values[kRows][N];
    unsigned own[N] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      read_piece(x + (row + r) * tiles.columns + column, left_in(r), values[r]);
      raise_each(values[r], own);
    }
    shared.put(own);
    __syncthreads();
    float factors[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const std::uint8_t code = block_code(std::bit_cast<float>(shared.largest(k)), kDTypeOf<Out>);
      factors[k] = block_factor(code);
      if (threadIdx.y == 0 && column + k < tiles.columns) {
        scales[tile / tiles.across() * tiles.columns + column + k] = code;
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      write_piece(values[r], factors, left_in(r), codes + (row + r) * tiles.columns + column);
    }
    __syncthreads();  // all have read the patterns before the next tile's are put there
  }
}

// Lines are columns: first the largest pattern of each, of all tiles that lie in it.
template <int N, class In>
__global__ void largest_of_columns_kernel(Tiles<N> tiles, const In* x, unsigned* largest) {
  __shared__ OfColumns<N> shared;
  for (std::int64_t tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    const std::int64_t column = tiles.column(tile);
    const std::int64_t first = tiles.first_row(tile);
    const std::int64_t last = min(first + tiles.height, tiles.rows);
    unsigned own[N] = {};
    for (std::int64_t row = first + threadIdx.y; row < last; row += kDown) {
      float values[N];
      read_piece(x + row * tiles.columns + column, tiles.columns - column, values);
      raise_each(values, own);
    }
    shared.put(own);
    __syncthreads();
    if (threadIdx.y == 0) {
      for (int k = 0; k < N && column + k < tiles.columns; ++k) {
        atomicMax(largest + column + k, shared.largest(k));
      }
    }
    __syncthreads();  // all have read the patterns before the next tile's are put there
  }
}

template <int N, class In, class Out>
__global__ void round_columns_kernel(Tiles<N> tiles, const In* x, const unsigned* largest,
                                     Out* codes, float* scales) {
  for (std::int64_t tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    const std::int64_t column = tiles.column(tile);
    const std::int64_t first = tiles.first_row(tile);
    const std::int64_t last = min(first + tiles.height, tiles.rows);
    float factors[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      factors[k] = column + k < tiles.columns ? factor_for<Out>(largest[column + k]) : 1;
      if (first == 0 && threadIdx.y == 0 && column + k < tiles.columns) {
        scales[column + k] = 1 / factors[k];
      }
    }
    for (std::int64_t row = first + threadIdx.y; row < last; row += kDown) {
      float values[N];
      read_piece(x + row * tiles.columns + column, tiles.columns - column, values);
      write_piece(values, factors, tiles.columns - column, codes + row * tiles.columns + column);
    }
  }
}

// One call, whose kernels it starts.
template <class In, class Out>
class Rounding {
 public:
  explicit Rounding(const KernelArgs& args)
      : args_(args),
        attrs_(args.attrs<ScaledCastAttrs>()),
        launch_(args.output()),
        source_(dense(args.input(0), Format::kContiguous)),
        rows_(source_.size(0)),
        columns_(source_.size(1)),
        x_(in<In>(source_)),
        codes_(out<Out>(args.output())) {}

  void run() const {
    switch (attrs_.by) {
      case ScaleBy::kTensor: return by_tensor();
      case ScaleBy::kLine: return attrs_.columns ? by_columns() : by_rows();
      case ScaleBy::kBlock: return attrs_.columns ? by_column_blocks() : by_row_blocks();
    }
  }

 private:
  // Calls use.operator()<N>() with N = kPiece if rows of `row` elements are whole pieces, else 1.
  template <class Use>
  void visit_pieces(std::int64_t row, const Use& use) const {
    if (row % kPiece == 0 && is_aligned<kPiece>(x_) && is_aligned<kPiece>(codes_)) {
      use.template operator()<kPiece>();
    } else {
      use.template operator()<1>();
    }
  }

  void clear(unsigned* patterns, std::int64_t count) const {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(unsigned);
    MEZZO_CUDA_CHECK(cudaMemsetAsync(patterns, 0, bytes, launch_.stream()));
  }

  void by_tensor() const {
    const Tensor given = args_.has(1) ? dense_f32(args_.input(1)) : Tensor();
    const WholeTensor<In, Out> call{rows_ * columns_,
                                    x_,
                                    in_or_null<float>(given),
                                    out<unsigned>(args_.output(2)),
                                    codes_,
                                    out<float>(args_.output(1))};
    clear(call.largest, 1);
    visit_pieces(0, [&]<int N>() {
      const int blocks = launch_.blocks_for((call.n + N - 1) / N);
      if (call.given == nullptr) {
        largest_kernel<N><<<blocks, kThreads, 0, launch_.stream()>>>(call.n, x_, call.largest);
        check_launch("largest_kernel");
      }
      round_tensor_kernel<N><<<blocks, kThreads, 0, launch_.stream()>>>(call);
      check_launch("round_tensor_kernel");
    });
  }

  void by_rows() const {
    auto* const scales = out<float>(args_.output(1));
    visit_pieces(columns_, [&]<int N>() {
      for_dense_rows(launch_, RoundRow<N, In, Out>{x_, codes_, scales}, {rows_, columns_, 1});
    });
  }

  void by_row_blocks() const {
    auto* const scales = out<std::uint8_t>(args_.output(1));
    visit_pieces(columns_, [&]<int N>() {
      for_dense_rows(launch_, RoundRowOfBlocks<N, In, Out>{x_, codes_, scales},
                     {rows_, columns_, 1});
    });
  }

  void by_columns() const {
    if (columns_ == 0) return;
    const Scratch scratch(static_cast<std::size_t>(columns_) * sizeof(unsigned), launch_.device());
    auto* const largest = scratch.as<unsigned>();
    auto* const scales = out<float>(args_.output(1));
    clear(largest, columns_);
    visit_pieces(columns_, [&]<int N>() {
      constexpr std::int64_t kHeight = 8 * kBlock;
      const Tiles<N> tiles{rows_, columns_, kHeight};
      const dim3 threads(kBeside, kDown);
      const int blocks = launch_.blocks_for(tiles.count() * kThreads);
      largest_of_columns_kernel<N><<<blocks, threads, 0, launch_.stream()>>>(tiles, x_, largest);
      check_launch("largest_of_columns_kernel");
      round_columns_kernel<N>
          <<<blocks, threads, 0, launch_.stream()>>>(tiles, x_, largest, codes_, scales);
      check_launch("round_columns_kernel");
    });
  }

  void by_column_blocks() const {
    if (rows_ * columns_ == 0) return;
    auto* const scales = out<std::uint8_t>(args_.output(1));
    visit_pieces(columns_, [&]<int N>() {
      const Tiles<N> tiles{rows_, columns_};
      const dim3 threads(kBeside, kDown);
      const int blocks = launch_.blocks_for(tiles.count() * kThreads);
      round_column_blocks_kernel<N>
          <<<blocks, threads, 0, launch_.stream()>>>(tiles, x_, codes_, scales);
      check_launch("round_column_blocks_kernel");
    });
  }

  const KernelArgs& args_;
  const ScaledCastAttrs& attrs_;
  Launch launch_;
  Tensor source_;
  std::int64_t rows_;
  std::int64_t columns_;
  const In* x_;
  Out* codes_;
};

void run_scaled_cast(const KernelArgs& args) {
  visit_vector_dtype(args.input(0).dtype(), [&]<class In>() {
    if (args.output().dtype() == DType::kE4m3) {
      Rounding<In, Float8E4M3>(args).run();
    } else {
      Rounding<In, Float8E5M2>(args).run();
    }
  });
}

}  // namespace

extern const KernelList scaled_cast{{{{"cuda", float_dtypes_only, run_scaled_cast}}}};

}  // namespace mezzo::kernels::cuda
