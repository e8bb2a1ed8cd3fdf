// RMS normalization and its gradients. The mean square is f32; a row's passes find it in the
// caches.
#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/rms_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = RmsNormInput;
using GradIn = RmsNormGradInput;

// Reads N elements of a row at a time.
template <int N, class T>
struct RmsNorm {
  const T* x;
  const float* weight;  // null: 1
  float eps;
  T* out;
  float* rstds;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const T* from = x + row * rows.size;
    float squares = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(from + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) squares = fmaf(values[k], values[k], squares);
    });
    const float mean = Of::all(squares, SumOf()) / static_cast<float>(rows.size);
    const float rstd = functions::rstd_of(mean, eps);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      float scales[N];
      load(from + j, values);
      load_or(weight, j, 1, scales);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = values[k] * rstd * scales[k];
      store(values, out + row * rows.size + j);
    });
    if (Of::lane() == 0) rstds[row] = rstd;
  }
};

template <int N, class T>
struct RmsNormGrad {
  const T* grad;
  const T* x;
  const float* weight;
  const float* rstds;
  T* out;

  // Reads the gradients with respect to the normalised values, and these values, from element j of
  // a row on; `at` is its index in the tensor.
  __device__ void read(std::int64_t at, std::int64_t j, float rstd, float (&grads)[N],
                       float (&normals)[N]) const {
    float scales[N];
    load(grad + at, grads);
    load(x + at, normals);
    load_or(weight, j, 1, scales);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      grads[k] *= scales[k];
      normals[k] *= rstd;
    }
  }

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = row * rows.size;
    const float rstd = rstds[row];
    float products = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float normals[N];
      read(start + j, j, rstd, grads, normals);
#pragma unroll
      for (int k = 0; k < N; ++k) products = fmaf(grads[k], normals[k], products);
    });
    const float mean = Of::all(products, SumOf()) / static_cast<float>(rows.size);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float normals[N];
      read(start + j, j, rstd, grads, normals);
#pragma unroll
      for (int k = 0; k < N; ++k) grads[k] = rstd * (grads[k] - normals[k] * mean);
      store(grads, out + start + j);
    });
  }
};

// The gradient of the weight: sums over the rows of the products of the gradients with the
// normalised values.
struct WeightGrad {
  float* grad_weight;

  __device__ static void join(float& sum, const float& other) { sum += other; }
  __device__ void finish(const float& sum, std::int64_t column) const { grad_weight[column] = sum; }
};

template <int N, class T>
struct WeightTerms {
  static constexpr int kPacks = 2;
  using Sum = float;
  struct Packs {
    Pack<T, N> grad, x;
    float rstd;
  };

  const T* grad;
  const T* x;
  const float* rstds;

  __device__ Packs read(const Place& place) const {
    return {read_stored<N>(grad + place.at), read_stored<N>(x + place.at), rstds[place.pixel]};
  }
  __device__ void add(const Packs& packs, float (&sums)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float normal = widen(packs.x.values[k]) * packs.rstd;
      sums[k] = fmaf(widen(packs.grad.values[k]), normal, sums[k]);
    }
  }
};

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const Tensor x = dense(args.input(In::kX), Format::kContiguous);
  const Tensor weight = args.has(In::kWeight) ? dense_f32(args.input(In::kWeight)) : Tensor();
  const std::int64_t size = normalized_shape(x.shape(), attrs).numel();
  const Launch launch(x);
  const auto* scale = in_or_null<float>(weight);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    auto* to = out<T>(args.output());
    visit_packs<T>(size, {x.address(), to, scale}, [&]<int N>() {
      for_dense_rows(launch,
                     RmsNorm<N, T>{in<T>(x), scale, static_cast<float>(attrs.eps), to,
                                   out<float>(args.output(1))},
                     {x.numel() / size, size, 1});
    });
  });
}

void run_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(GradIn::kGrad), Format::kContiguous);
  const Tensor x = dense(args.input(GradIn::kX), Format::kContiguous);
  const Tensor weight =
      args.has(GradIn::kWeight) ? dense_f32(args.input(GradIn::kWeight)) : Tensor();
  const Tensor rstd = dense_f32(args.input(GradIn::kRstd));
  const std::int64_t size = normalized_shape(x.shape(), args.attrs<LayerNormAttrs>()).numel();
  const std::int64_t rows = x.numel() / size;
  const Launch launch(x);
  const auto* rstds = in<float>(rstd);
  const auto* scale = in_or_null<float>(weight);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    auto* to = out<T>(args.output());
    visit_packs<T>(size, {grad.address(), x.address(), to, scale}, [&]<int N>() {
      add_up_rows<N>(launch, WeightTerms<N, T>{in<T>(grad), in<T>(x), rstds},
                     WeightGrad{out<float>(args.output(1))}, rows, size);
      for_dense_rows(launch, RmsNormGrad<N, T>{in<T>(grad), in<T>(x), scale, rstds, to},
                     {rows, size, 1});
    });
  });
}

}  // namespace

extern const KernelList rms_norm{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList rms_norm_grad{{{{"cuda", float_dtypes_only, run_grad}}}};

}  // namespace mezzo::kernels::cuda
