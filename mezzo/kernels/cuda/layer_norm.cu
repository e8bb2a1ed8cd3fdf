// Layer normalization and its gradients. Statistics are f32, in two passes over a row that lies in
// the caches: the square of a mean, taken from the mean of squares, would cancel where the mean is
// large.
#include "mezzo/kernels/cuda/reduce.cuh"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/layer_norm_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using In = LayerNormInput;
using GradIn = LayerNormGradInput;

__device__ float value_or(const float* values, std::int64_t i, float otherwise) {
  return values != nullptr ? values[i] : otherwise;
}

template <class T>
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
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) total += widen(from[i]);
    const float mean = Of::all(total, SumOf()) / size;
    float squares = 0;
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) {
      const float centered = widen(from[i]) - mean;
      squares = fmaf(centered, centered, squares);
    }
    const float rstd = 1.0F / sqrtf(Of::all(squares, SumOf()) / size + eps);
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) {
      const float normal = (widen(from[i]) - mean) * rstd;
      out[row * rows.size + i] =
          narrow<T>(fmaf(normal, value_or(weight, i, 1), value_or(bias, i, 0)));
    }
    if (Of::lane() != 0) return;
    means[row] = mean;
    rstds[row] = rstd;
  }
};

template <class T>
struct LayerNormGrad {
  const T* grad;
  const T* x;
  const float* weight;
  const float* means;
  const float* rstds;
  T* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const float mean = means[row];
    const float rstd = rstds[row];
    float sum = 0;
    float products = 0;
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) {
      const std::int64_t at = row * rows.size + i;
      const float g = widen(grad[at]) * value_or(weight, i, 1);
      sum += g;
      products = fmaf(g, (widen(x[at]) - mean) * rstd, products);
    }
    sum = Of::all(sum, SumOf());
    products = Of::all(products, SumOf());
    const float share = 1.0F / static_cast<float>(rows.size);
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) {
      const std::int64_t at = row * rows.size + i;
      const float normal = (widen(x[at]) - mean) * rstd;
      const float g = widen(grad[at]) * value_or(weight, i, 1);
      out[at] = narrow<T>(rstd * (g - (sum + normal * products) * share));
    }
  }
};

// The gradients of bias, and of weight: sums over the rows.
template <class T, bool kOfWeight>
struct ColumnTerms {
  const T* grad;
  const T* x;
  const float* means;
  const float* rstds;
  float* out;
  __device__ float start() const { return 0; }
  __device__ float combine(float a, float b) const { return a + b; }
  __device__ float term(std::int64_t at, std::int64_t, std::int64_t row) const {
    const float g = widen(grad[at]);
    return kOfWeight ? g * ((widen(x[at]) - means[row]) * rstds[row]) : g;
  }
  __device__ void finish(float value, std::int64_t at) const { out[at] = value; }
};

void run(const KernelArgs& args) {
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const Tensor x = dense(args.input(In::kX), Format::kContiguous);
  const Tensor weight = args.has(In::kWeight) ? dense_f32(args.input(In::kWeight)) : Tensor();
  const Tensor bias = args.has(In::kBias) ? dense_f32(args.input(In::kBias)) : Tensor();
  const std::int64_t size = normalized_shape(x.shape(), attrs).numel();
  const Launch launch(x);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    for_rows(launch,
             LayerNorm<T>{in<T>(x), in_or_null<float>(weight), in_or_null<float>(bias),
                          static_cast<float>(attrs.eps), out<T>(args.output()),
                          out<float>(args.output(1)), out<float>(args.output(2))},
             {x.numel() / size, size, 1});
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
  const Fold columns{Dims<3>(make_loop<3>({size}, {Strides{1}, Strides{1}, Strides{1}})),
                     Dims<1>(make_loop<1>({rows}, {Strides{size}})), size, rows};
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const auto* means = in<float>(mean);
    const auto* rstds = in<float>(rstd);
    for_rows(launch,
             LayerNormGrad<T>{in<T>(grad), in<T>(x), in_or_null<float>(weight), means, rstds,
                              out<T>(args.output())},
             {rows, size, 1});
    reduce(launch,
           ColumnTerms<T, true>{in<T>(grad), in<T>(x), means, rstds, out<float>(args.output(1))},
           columns);
    reduce(launch,
           ColumnTerms<T, false>{in<T>(grad), in<T>(x), means, rstds, out<float>(args.output(2))},
           columns);
  });
}

}  // namespace

extern const KernelList layer_norm{{{{"cuda", float_dtypes_only, run}}}};
extern const KernelList layer_norm_grad{{{{"cuda", float_dtypes_only, run_grad}}}};

}  // namespace mezzo::kernels::cuda
