// Sums, means and maxima over some axes.
#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/reduce.cuh"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
struct Largest {
  const T* x;
  Results<T> results;
  __device__ float start() const { return -INFINITY; }
  // A NaN wins and stays.
  __device__ float combine(float a, float b) const {
    return isnan(a) || !(b > a || isnan(b)) ? a : b;
  }
  __device__ float term(std::int64_t at, std::int64_t, std::int64_t) const { return widen(x[at]); }
  __device__ void finish(float value, std::int64_t at) const { results.put(at, value); }
};

__device__ bool is_largest(float x, float largest) {
  return x == largest || (isnan(x) && isnan(largest));
}

// Counts the elements that equal their maximum. Exact up to 2^24 of them.
template <class T>
struct Ties {
  const T* x;
  const T* y;
  float* out;
  __device__ float start() const { return 0; }
  __device__ float combine(float a, float b) const { return a + b; }
  __device__ float term(std::int64_t at, std::int64_t of_y, std::int64_t) const {
    return is_largest(widen(x[at]), widen(y[of_y])) ? 1.0F : 0.0F;
  }
  __device__ void finish(float value, std::int64_t at) const { out[at] = value; }
};

struct Share {
  __device__ float operator()(float x, float y, float grad, float ties) const {
    return is_largest(x, y) ? grad / ties : 0.0F;
  }
};

// Sums down the columns of a dense matrix, such as bias gradients, are the most frequent ones in a
// network. They are read in packs.
bool is_down_columns(const Fold& r) {
  return r.kept.rank == 1 && r.kept.strides[0][0] == 1 && r.kept.strides[1][0] == 1 &&
         r.reduced.rank == 1 && r.reduced.strides[0][0] == r.outputs && r.outputs > 1;
}

template <int N, class T>
struct Column {
  static constexpr int kPacks = 1;
  using Sum = float;
  using Packs = Pack<T, N>;

  const T* x;
  __device__ Packs read(const Place& place) const { return read_stored<N>(x + place.at); }
  __device__ void add(const Packs& pack, float (&sums)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += widen(pack.values[k]);
  }
};

template <class T>
struct Quotient {
  Results<T> results;
  float divisor;
  __device__ static void join(float& sum, float other) { sum += other; }
  __device__ void finish(float sum, std::int64_t column) const {
    results.put(column, sum / divisor);
  }
};

void sums(const KernelArgs& args, float divisor) {
  const Launch launch(args.output());
  const Fold r = reduction_of(args);
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
    const T* x = in<T>(args.input(0));
    const Results<T> to(args.output());
    if (!is_down_columns(r)) return reduce(launch, SumTerms<T>{x, to, divisor}, r);
    visit_packs<T>(r.outputs, {x}, [&]<int N>() {
      add_up_rows<N>(launch, Column<N, T>{x}, Quotient<T>{to, divisor}, r.terms, r.outputs);
    });
  });
}

void run_sum(const KernelArgs& args) { sums(args, 1); }

void run_mean(const KernelArgs& args) {
  sums(args, static_cast<float>(args.input(0).numel() / args.output().numel()));
}

void run_max(const KernelArgs& args) {
  const Launch launch(args.output());
  const Fold reduction = reduction_of(args);
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
    reduce(launch, Largest<T>{in<T>(args.input(0)), Results<T>(args.output())}, reduction);
  });
}

// Inputs: the gradient, x and its maximum y. grad and y have size 1 along the reduced axes.
void run_max_grad(const KernelArgs& args) {
  const Tensor grad = dense_f32(args.input(0));
  const Tensor& x = args.input(1);
  const Tensor& y = args.input(2);
  const Tensor& output = args.output();
  const Launch launch(output);
  const Tensor ties = empty(y.shape(), DType::kF32, Format::kContiguous, output.device());
  const auto loop = make_loop<5>(
      x.shape(), {output.strides(), x.strides(), broadcast_strides(y, x.shape()),
                  broadcast_strides(grad, x.shape()), broadcast_strides(ties, x.shape())});
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    reduce(launch, Ties<T>{in<T>(x), in<T>(y), out<float>(ties)},
           reduction_of(x, y.shape(), ties.strides(), y.strides()));
    map_strided(launch, Share(), loop, out<T>(output), in<T>(x), in<T>(y), in<float>(grad),
                in<float>(ties));
  });
}

}  // namespace

extern const KernelList sum{{{{"cuda", float_dtypes_only, run_sum}}}};
extern const KernelList mean{{{{"cuda", float_dtypes_only, run_mean}}}};
extern const KernelList max{{{{"cuda", float_dtypes_only, run_max}}}};
extern const KernelList max_grad{{{{"cuda", float_dtypes_only, run_max_grad}}}};

}  // namespace mezzo::kernels::cuda
