// Layer normalization and its gradient, row by row. A row is read from memory once and stays in the
// first-level cache for its passes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/layer_norm.cpp"
#include <cmath>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/norm/row_sums-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/rstd.h"
#include "mezzo/ops/layer_norm_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

struct RowStatistics {
  float mean;
  float rstd;
};

// Two passes over the row. The second also sums x - mean, which would be 0 if the mean were exact,
// and corrects mean and variance by it. So a mean of 1000 deviations, rounded while it was summed,
// becomes right, and the variance does not cancel. Chan, Golub and LeVeque, "Algorithms for
// computing the sample variance", 1983 (the corrected two-pass algorithm).
template <class T>
RowStatistics row_statistics(const T* x, std::int64_t size, float eps) {
  const auto count = static_cast<float>(size);
  F32Vec sum;
  F32Vec unused;
  sum_row(size, sum, unused, [&](std::int64_t i, auto part, F32Vec& terms, F32Vec&) HWY_ATTR {
    terms = hn::Add(terms, load(x + i, part));
  });
  const float mean = sum_of_lanes(sum) / count;
  const auto from = hn::Set(F32(), mean);
  F32Vec off;
  F32Vec squares;
  sum_row(size, off, squares, [&](std::int64_t i, auto part, F32Vec& a, F32Vec& b) HWY_ATTR {
    const auto v = keep(hn::Sub(load(x + i, part), from), part);
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
  const float correction = sum_of_lanes(off) / count;
  const float var = sum_of_lanes(squares) / count - correction * correction;
  return {mean + correction, kernels::rstd_of(std::isnan(var) ? var : std::fmax(var, 0.0F), eps)};
}

template <class T>
void normalize_rows(const T* x, const Tensor& weight, const Tensor& bias, float eps,
                    std::span<const Tensor> outputs) {
  const std::int64_t size = weight.numel();
  const float* scale = weight.data<float>();
  const float* shift = bias.data<float>();
  T* y = outputs[0].mutable_data<T>();
  float* means = outputs[1].mutable_data<float>();
  float* rstds = outputs[2].mutable_data<float>();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / size);
  parallel_for(outputs[1].numel(), grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = x + row * size;
      T* out = y + row * size;
      const RowStatistics statistics = row_statistics(in, size, eps);
      means[row] = statistics.mean;
      rstds[row] = statistics.rstd;
      const auto mean = hn::Set(F32(), statistics.mean);
      const auto rstd = hn::Set(F32(), statistics.rstd);
      for_row(size, [&](std::int64_t i, auto part) HWY_ATTR {
        prefetch(in + i, kReadAhead);
        prefetch(out + i, kWriteAhead);
        const auto normal = hn::Mul(hn::Sub(load(in + i, part), mean), rstd);
        store(hn::MulAdd(normal, load(scale + i, part), load(shift + i, part)), out + i, part);
      });
    }
  });
}

void layer_norm(const KernelArgs& args) {
  using In = LayerNormInput;
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const Tensor x = kernels::dense(args.input(In::kX), Format::kContiguous);
  const std::int64_t size = normalized_shape(x.shape(), attrs).numel();
  const Tensor weight = weights_of(args.input(In::kWeight), size, 1);
  const Tensor bias = weights_of(args.input(In::kBias), size, 0);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    normalize_rows(x.data<T>(), weight, bias, static_cast<float>(attrs.eps), args.outputs);
  });
}

// The gradient of rows [begin, end), and their contribution to the gradients of weight and bias.
template <class T>
struct GradRows {
  const T* x;
  const T* grad;
  const float* weight;
  const float* means;
  const float* rstds;
  T* grad_x;
  std::int64_t size;
};

template <class T>
void grad_of_row(const GradRows<T>& t, std::int64_t row, float* grad_weight, float* grad_bias) {
  const T* x = t.x + row * t.size;
  const T* grad = t.grad + row * t.size;
  T* grad_x = t.grad_x + row * t.size;
  const auto mean = hn::Set(F32(), t.means[row]);
  const auto rstd = hn::Set(F32(), t.rstds[row]);
  F32Vec sum;
  F32Vec products;
  sum_row(t.size, sum, products, [&](std::int64_t i, auto part, F32Vec& a, F32Vec& b) HWY_ATTR {
    const auto g = load(grad + i, part);  // 0 beyond the end
    const auto normal = hn::Mul(hn::Sub(load(x + i, part), mean), rstd);
    const auto scaled = hn::Mul(g, load(t.weight + i, part));
    a = hn::Add(a, scaled);
    b = hn::MulAdd(scaled, normal, b);
    store(hn::MulAdd(g, normal, load(grad_weight + i, part)), grad_weight + i, part);
    store(hn::Add(g, load(grad_bias + i, part)), grad_bias + i, part);
  });
  const auto count = static_cast<float>(t.size);
  const auto mean_grad = hn::Set(F32(), sum_of_lanes(sum) / count);
  const auto mean_product = hn::Set(F32(), sum_of_lanes(products) / count);
  for_row(t.size, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto normal = hn::Mul(hn::Sub(load(x + i, part), mean), rstd);
    const auto scaled = hn::Mul(load(grad + i, part), load(t.weight + i, part));
    const auto rest = hn::NegMulAdd(normal, mean_product, hn::Sub(scaled, mean_grad));
    store(hn::Mul(rest, rstd), grad_x + i, part);
  });
}

// Rows in parallel; each thread has its own sums for weight and bias, which are added in order. A
// sum runs over at most kChunkRows rows before it is added to a total: f32 would lose the last of
// millions of terms added one by one.
template <class T>
void grad_of_rows(const GradRows<T>& t, std::int64_t rows, float* grad_weight, float* grad_bias) {
  constexpr std::int64_t kChunkRows = 256;
  const std::int64_t most = std::clamp<std::int64_t>(rows * t.size / kElementGrain, 1, rows + 1);
  const std::int64_t parts = std::min<std::int64_t>(most, num_threads());
  const Tensor block = zeros({parts, 4, t.size});
  auto* sums = block.mutable_data<float>();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* total = sums + part * 4 * t.size;
      float* chunk = total + 2 * t.size;
      const std::int64_t end = rows * (part + 1) / parts;
      for (std::int64_t row = rows * part / parts; row < end;) {
        const std::int64_t stop = std::min(row + kChunkRows, end);
        for (; row < stop; ++row) grad_of_row(t, row, chunk, chunk + t.size);
        add_array(chunk, total, 2 * t.size);
        std::fill_n(chunk, 2 * t.size, 0.0F);
      }
    }
  });
  std::fill_n(grad_weight, t.size, 0.0F);
  std::fill_n(grad_bias, t.size, 0.0F);
  for (std::int64_t part = 0; part < parts; ++part) {
    add_array(sums + part * 4 * t.size, grad_weight, t.size);
    add_array(sums + (part * 4 + 1) * t.size, grad_bias, t.size);
  }
}

void layer_norm_grad(const KernelArgs& args) {
  using In = LayerNormGradInput;
  const Tensor x = kernels::dense(args.input(In::kX), Format::kContiguous);
  const Tensor grad = kernels::dense(args.input(In::kGrad), Format::kContiguous);
  const Tensor means = kernels::dense(args.input(In::kMean), Format::kContiguous);
  const Tensor rstds = kernels::dense(args.input(In::kRstd), Format::kContiguous);
  const std::int64_t size = normalized_shape(x.shape(), args.attrs<LayerNormAttrs>()).numel();
  const Tensor weight = weights_of(args.input(In::kWeight), size, 1);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const GradRows<T> rows{x.data<T>(),
                           grad.data<T>(),
                           weight.data<float>(),
                           means.data<float>(),
                           rstds.data<float>(),
                           args.output().mutable_data<T>(),
                           size};
    grad_of_rows(rows, means.numel(), args.output(1).mutable_data<float>(),
                 args.output(2).mutable_data<float>());
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(layer_norm);
HWY_EXPORT(layer_norm_grad);

}  // namespace

extern const KernelList layer_norm{{{{"cpu_rows", vector_dtypes_only, [](const KernelArgs& args) {
                                        HWY_DYNAMIC_DISPATCH(layer_norm)(args);
                                      }}}}};
extern const KernelList layer_norm_grad{
    {{{"cpu_rows", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(layer_norm_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
