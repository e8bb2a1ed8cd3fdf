// Reductions over some dimensions of a strided tensor.
//
// Threads of a block share an output's terms. If there are few outputs, several thread blocks share
// them, too: each sums its range of terms, and a second pass combines the ranges in order. There
// are no atomic additions, so the same call on the same GPU gives the same bits.
#pragma once

#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::cuda {

// The geometry of a reduction. Operands of `kept`: the tensor that is read, the result, and a
// further operand laid out like the result.
struct Fold {
  Dims<3> kept;
  Dims<1> reduced;
  std::int64_t outputs = 0;
  std::int64_t terms = 0;  // per output
};

// The reduction of x over the axes where `kept` has size 1 and x has not. `result` and `other` are
// strides for tensors of shape `kept`.
inline Fold reduction_of(const Tensor& x, const Shape& kept, const Strides& result,
                         const Strides& other) {
  Shape kept_sizes;
  Shape reduced_sizes;
  std::array<Strides, 3> kept_strides;
  std::array<Strides, 1> reduced_strides;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (kept[i] == x.shape()[i]) {
      kept_sizes.push_back(x.shape()[i]);
      kept_strides[0].push_back(x.strides()[i]);
      kept_strides[1].push_back(result[i]);
      kept_strides[2].push_back(other[i]);
    } else {
      reduced_sizes.push_back(x.shape()[i]);
      reduced_strides[0].push_back(x.strides()[i]);
    }
  }
  return {Dims<3>(make_loop<3>(kept_sizes, kept_strides)),
          Dims<1>(make_loop<1>(reduced_sizes, reduced_strides)), kept_sizes.numel(),
          reduced_sizes.numel()};
}

// The reduction of a call; the result is dense and row-major over the axes that stay.
inline Fold reduction_of(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  const Shape kept = reduced_shape(x.shape(), args.attrs<ReduceAttrs>(), true);
  const Strides strides = strides_for(kept, Format::kContiguous);
  return reduction_of(x, kept, strides, strides);
}

// How a block's threads are divided: adjacent outputs, and threads that share one of them. kRows: a
// warp's threads share an output whose terms are contiguous; otherwise they have adjacent outputs.
template <int kOutputs, bool kRowsMode>
struct BlockShape {
  static constexpr int kX = kOutputs;
  static constexpr int kY = kThreads / kOutputs;
  static constexpr bool kRows = kRowsMode;
  __device__ static int x() { return kRows ? threadIdx.x / kY : threadIdx.x % kX; }
  __device__ static int y() { return kRows ? threadIdx.x % kY : threadIdx.x / kX; }
};

// Combines the values of the threads that share an output, in a fixed order. All threads of a block
// must call it; the first of an output's threads has the result.
template <class Block, class Op>
__device__ float combine_column(const Op& op, float value, float* shared) {
  const int here = Block::y() * Block::kX + Block::x();
  shared[here] = value;
  __syncthreads();
  for (int half = Block::kY / 2; half > 0; half /= 2) {
    if (Block::y() < half) {
      shared[here] = op.combine(shared[here], shared[here + half * Block::kX]);
    }
    __syncthreads();
  }
  return shared[here];
}

// An Op has start(), combine(a, b), term(offset in x, offset in the further operand, index of the
// term) in f32, and finish(value, offset in the result), which stores. `partial` is null if one
// thread block has all of an output's terms.
template <class Block, class Op>
__global__ void reduce_kernel(Op op, Fold r, std::int64_t per_split, float* partial) {
  __shared__ float shared[kThreads];
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * Block::kX + Block::x();
  const bool takes_part = output < r.outputs;
  std::int64_t at[3] = {0, 0, 0};
  if (takes_part) r.kept.locate_any(output, r.outputs <= 0x7fffffff, at);
  const std::int64_t begin = blockIdx.y * per_split;
  const std::int64_t end = begin + per_split < r.terms ? begin + per_split : r.terms;
  const bool is_small = r.terms <= 0x7fffffff;
  float value = op.start();
  for (std::int64_t t = begin + Block::y(); takes_part && t < end; t += Block::kY) {
    std::int64_t offset[1];
    r.reduced.locate_any(t, is_small, offset);
    value = op.combine(value, op.term(at[0] + offset[0], at[2], t));
  }
  value = combine_column<Block>(op, value, shared);
  if (!takes_part || Block::y() != 0) return;
  if (partial != nullptr) {
    partial[blockIdx.y * r.outputs + output] = value;
  } else {
    op.finish(value, at[1]);
  }
}

// Thread blocks have a few adjacent outputs, with many threads down the ranges of each. A single
// thread per output would wait for memory up to a thousand times in a row.
template <class Op>
__global__ void combine_kernel(Op op, Fold r, int splits, const float* partial) {
  using Block = BlockShape<4, false>;
  __shared__ float shared[kThreads];
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * Block::kX + Block::x();
  float value = op.start();
  const int ranges = output < r.outputs ? splits : 0;
#pragma unroll 8
  for (int s = Block::y(); s < ranges; s += Block::kY) {
    value = op.combine(value, partial[s * r.outputs + output]);
  }
  value = combine_column<Block>(op, value, shared);
  if (output >= r.outputs || Block::y() != 0) return;
  std::int64_t at[3];
  r.kept.locate_any(output, r.outputs <= 0x7fffffff, at);
  op.finish(value, at[1]);
}

template <class Block, class Op>
void reduce_in(const Launch& launch, const Op& op, const Fold& r) {
  // The least terms of a thread before its range is divided.
  constexpr std::int64_t kLeastTerms = 8;
  const std::int64_t blocks = (r.outputs + Block::kX - 1) / Block::kX;
  const std::int64_t wanted =
      4 * launch.context().multiprocessors() / std::max<std::int64_t>(blocks, 1);
  const std::int64_t possible = r.terms / (Block::kY * kLeastTerms);
  const std::int64_t splits = std::clamp<std::int64_t>(std::min(wanted, possible), 1, 1024);
  const std::int64_t per_split = (r.terms + splits - 1) / splits;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(splits));
  if (splits == 1) {
    reduce_kernel<Block><<<grid, kThreads, 0, launch.stream()>>>(op, r, r.terms, nullptr);
    return check_launch("reduce_kernel");
  }
  const Scratch partial(static_cast<std::size_t>(splits * r.outputs) * sizeof(float),
                        launch.device());
  auto* sums = partial.as<float>();
  reduce_kernel<Block><<<grid, kThreads, 0, launch.stream()>>>(op, r, per_split, sums);
  check_launch("reduce_kernel");
  const auto groups = static_cast<unsigned>((r.outputs + 3) / 4);
  combine_kernel<<<groups, kThreads, 0, launch.stream()>>>(op, r, static_cast<int>(splits), sums);
  check_launch("combine_kernel");
}

// Chooses the shape of thread blocks by which dimension is contiguous.
template <class Op>
void reduce(const Launch& launch, const Op& op, const Fold& r) {
  if (r.outputs == 0) return;
  const std::int64_t kept_step = r.kept.strides[0][r.kept.rank - 1];
  const std::int64_t reduced_step = r.reduced.strides[0][r.reduced.rank - 1];
  constexpr std::int64_t kFewTerms = 1024;
  if (r.outputs > 1 && kept_step < reduced_step) {
    reduce_in<BlockShape<32, false>>(launch, op, r);
  } else if (r.outputs > 1 && r.terms <= kFewTerms) {
    reduce_in<BlockShape<8, true>>(launch, op, r);
  } else {
    reduce_in<BlockShape<1, true>>(launch, op, r);
  }
}

// The output of a reduction of T: an array of T, or of f32, which 16-bit sums may request. It is a
// run-time choice, because separate kernels would take nvcc twice as long.
template <class T>
struct Results {
  T* array = nullptr;
  float* wide = nullptr;  // used if it is not null

  explicit Results(const Tensor& tensor) {
    if (tensor.dtype() == DType::kF32) {
      wide = out<float>(tensor);
    } else {
      array = out<T>(tensor);
    }
  }
  __device__ void put(std::int64_t at, float value) const {
    if (wide != nullptr) {
      wide[at] = value;
    } else {
      array[at] = narrow<T>(value);
    }
  }
};

template <class T>
struct SumTerms {
  const T* x;
  Results<T> results;
  float divisor;
  __device__ float start() const { return 0; }
  __device__ float combine(float a, float b) const { return a + b; }
  __device__ float term(std::int64_t at, std::int64_t, std::int64_t) const { return widen(x[at]); }
  __device__ void finish(float value, std::int64_t at) const { results.put(at, value / divisor); }
};

}  // namespace mezzo::kernels::cuda
