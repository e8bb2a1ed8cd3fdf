// Layer normalization and its gradients. Statistics are f32, in two passes over a row that is in
// the caches. Subtracting the squared mean from the mean of squares would cancel if the mean is
// large.
#include "mezzo/kernels/cuda/channels.cuh"
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/layer_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = LayerNormInput;
using GradIn = LayerNormGradInput;

// Reads N elements of a row at a time.
template <int N, class T>
struct LayerNorm {
  const T* x;
  const float* weight;  // null: 1
  const float* bias;    // null: 0
  float eps;
  T* out;
  float* means;
  float* rstds;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const T* from = x + row * rows.size;
    const auto size = static_cast<float>(rows.size);
    float total = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(from + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) total += values[k];
    });
    const float mean = Of::all(total, SumOf()) / size;
    float squares = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(from + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float centered = values[k] - mean;
        squares = fmaf(centered, centered, squares);
      }
    });
    const float rstd = functions::rstd_of(Of::all(squares, SumOf()) / size, eps);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      float scales[N];
      float shifts[N];
      load(from + j, values);
      load_or(weight, j, 1, scales);
      load_or(bias, j, 0, shifts);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = fmaf((values[k] - mean) * rstd, scales[k], shifts[k]);
      store(values, out + row * rows.size + j);
    });
    if (Of::lane() != 0) return;
    means[row] = mean;
    rstds[row] = rstd;
  }
};

template <int N, class T>
struct LayerNormGrad {
  const T* grad;
  const T* x;
  const float* weight;
  const float* means;
  const float* rstds;
  T* out;

  // Reads the gradients with respect to the normalised values, and these values, from element j of
  // a row on; `at` is its index in the tensor.
  __device__ void read(std::int64_t at, std::int64_t j, float mean, float rstd, float (&grads)[N],
                       float (&normals)[N]) const {
    float scales[N];
    load(grad + at, grads);
    load(x + at, normals);
    load_or(weight, j, 1, scales);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      grads[k] *= scales[k];
      normals[k] = (normals[k] - mean) * rstd;
    }
  }

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = row * rows.size;
    const float mean = means[row];
    const float rstd = rstds[row];
    float sum = 0;
    float products = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float normals[N];
      read(start + j, j, mean, rstd, grads, normals);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        sum += grads[k];
        products = fmaf(grads[k], normals[k], products);
      }
    });
    sum = Of::all(sum, SumOf());
    products = Of::all(products, SumOf());
    const float share = 1.0F / static_cast<float>(rows.size);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float normals[N];
      read(start + j, j, mean, rstd, grads, normals);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        grads[k] = rstd * (grads[k] - (sum + normals[k] * products) * share);
      }
      store(grads, out + start + j);
    });
  }
};

// The gradients of bias and weight: sums over the rows of the gradients, and of their products with
// the normalised values.
struct ParameterGrads {
  float* grad_weight;
  float* grad_bias;

  __device__ static void join(float2& sum, const float2& other) { add_pair(sum, other); }
  __device__ void finish(const float2& sum, std::int64_t column) const {
    grad_bias[column] = sum.x;
    grad_weight[column] = sum.y;
  }
};

template <int N, class T>
struct ParameterTerms {
  static constexpr int kPacks = 2;
  using Sum = float2;
  struct Packs {
    Pack<T, N> grad, x;
    float mean, rstd;
  };

  const T* grad;
  const T* x;
  const float* means;
  const float* rstds;

  __device__ Packs read(const Place& place) const {
    return {read_stored<N>(grad + place.at), read_stored<N>(x + place.at), means[place.pixel],
            rstds[place.pixel]};
  }
  __device__ void add(const Packs& packs, float2 (&sums)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = widen(packs.grad.values[k]);
      const float normal = (widen(packs.x.values[k]) - packs.mean) * packs.rstd;
      add_pair(sums[k], {g, g * normal});
    }
  }
};

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const Tensor x = dense(args.input(In::kX), Format::kContiguous);
  const Tensor weight = args.has(In::kWeight) ? dense_f32(args.input(In::kWeight)) : Tensor();
  const Tensor bias = args.has(In::kBias) ? dense_f32(args.input(In::kBias)) : Tensor();
  const std::int64_t size = normalized_shape(x.shape(), attrs).numel();
  const Launch launch(x);
  const auto* scale = in_or_null<float>(weight);
  const auto* shift = in_or_null<float>(bias);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    auto* to = out<T>(args.output());
    visit_packs<T>(size, {x.address(), to, scale, shift}, [&]<int N>() {
      for_dense_rows(launch,
                     LayerNorm<N, T>{in<T>(x), scale, shift, static_cast<float>(attrs.eps), to,
                                     out<float>(args.output(1)), out<float>(args.output(2))},
                     {x.numel() / size, size, 1});
    });
  });
}

void run_grad(const KernelArgs& args) {
  const Tensor grad = dense(args.input(GradIn::kGrad), Format::kContiguous);
  const Tensor x = dense(args.input(GradIn::kX), Format::kContiguous);
  const Tensor weight =
      args.has(GradIn::kWeight) ? dense_f32(args.input(GradIn::kWeight)) : Tensor();
  const Tensor mean = dense_f32(args.input(GradIn::kMean));
  const Tensor rstd = dense_f32(args.input(GradIn::kRstd));
  const std::int64_t size = normalized_shape(x.shape(), args.attrs<LayerNormAttrs>()).numel();
  const std::int64_t rows = x.numel() / size;
  const Launch launch(x);
  const auto* means = in<float>(mean);
  const auto* rstds = in<float>(rstd);
  const auto* scale = in_or_null<float>(weight);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    auto* to = out<T>(args.output());
    visit_packs<T>(size, {grad.address(), x.address(), to, scale}, [&]<int N>() {
      add_up_rows<N>(launch, ParameterTerms<N, T>{in<T>(grad), in<T>(x), means, rstds},
                     ParameterGrads{out<float>(args.output(1)), out<float>(args.output(2))}, rows,
                     size);
      for_dense_rows(launch, LayerNormGrad<N, T>{in<T>(grad), in<T>(x), scale, means, rstds, to},
                     {rows, size, 1});
    });
  });
}

}  // namespace

extern const KernelList layer_norm{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList layer_norm_grad{{{{"cuda", float_dtypes_only, run_grad}}}};

}  // namespace mezzo::kernels::cuda
