// RMS normalization and its gradient, row by row. A row is read from memory once and stays in the
// first-level cache for its passes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/rms_norm.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/norm/row_sums-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/rstd.h"
#include "mezzo/ops/rms_norm_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

template <class T>
float rstd_of_row(const T* x, std::int64_t size, float eps) {
  F32Vec squares;
  F32Vec unused;
  sum_row(size, squares, unused, [&](std::int64_t i, auto part, F32Vec& terms, F32Vec&) HWY_ATTR {
    const auto v = load(x + i, part);  // 0 beyond the end
    terms = hn::MulAdd(v, v, terms);
  });
  return kernels::rstd_of(sum_of_lanes(squares) / static_cast<float>(size), eps);
}

template <class T>
void normalize_rows(const T* x, const Tensor& weight, float eps, std::span<const Tensor> outputs) {
  const std::int64_t size = weight.numel();
  const float* scale = weight.data<float>();
  T* y = outputs[0].mutable_data<T>();
  float* rstds = outputs[1].mutable_data<float>();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / size);
  parallel_for(outputs[1].numel(), grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = x + row * size;
      T* out = y + row * size;
      rstds[row] = rstd_of_row(in, size, eps);
      const auto rstd = hn::Set(F32(), rstds[row]);
      for_row(size, [&](std::int64_t i, auto part) HWY_ATTR {
        prefetch(in + i, kReadAhead);
        prefetch(out + i, kWriteAhead);
        const auto normal = hn::Mul(load(in + i, part), rstd);
        store(hn::Mul(normal, load(scale + i, part)), out + i, part);
      });
    }
  });
}

template <class T>
struct RmsGradRows {
  const T* x;
  const T* grad;
  const float* weight;
  const float* rstds;
  T* grad_x;
  std::int64_t size;
};

// The gradient of one row, and its contribution to the gradient of the weight.
template <class T>
void grad_of_row(const RmsGradRows<T>& t, std::int64_t row, float* grad_weight) {
  const T* x = t.x + row * t.size;
  const T* grad = t.grad + row * t.size;
  T* grad_x = t.grad_x + row * t.size;
  const auto rstd = hn::Set(F32(), t.rstds[row]);
  F32Vec products;
  F32Vec unused;
  sum_row(t.size, products, unused, [&](std::int64_t i, auto part, F32Vec& a, F32Vec&) HWY_ATTR {
    const auto g = load(grad + i, part);  // 0 beyond the end
    const auto normal = hn::Mul(load(x + i, part), rstd);
    a = hn::MulAdd(hn::Mul(g, load(t.weight + i, part)), normal, a);
    store(hn::MulAdd(g, normal, load(grad_weight + i, part)), grad_weight + i, part);
  });
  const auto mean_product = hn::Set(F32(), sum_of_lanes(products) / static_cast<float>(t.size));
  for_row(t.size, [&](std::int64_t i, auto part) HWY_ATTR {
    const auto normal = hn::Mul(load(x + i, part), rstd);
    const auto scaled = hn::Mul(load(grad + i, part), load(t.weight + i, part));
    store(hn::Mul(hn::NegMulAdd(normal, mean_product, scaled), rstd), grad_x + i, part);
  });
}

// Rows in parallel, in parts that do not depend on the number of threads. Each part has its own sum
// for the weight; these are added in order. A sum runs over at most kChunkRows rows before it is
// added to a total: f32 would lose the last of millions of terms added one by one.
template <class T>
void grad_of_rows(const RmsGradRows<T>& t, std::int64_t rows, float* grad_weight) {
  constexpr std::int64_t kChunkRows = 256;
  constexpr std::int64_t kMostParts = 64;
  const std::int64_t most = std::clamp<std::int64_t>(rows * t.size / kElementGrain, 1, rows + 1);
  const std::int64_t parts = std::min(most, kMostParts);
  const Tensor block = zeros({parts, 2, t.size});
  auto* sums = block.mutable_data<float>();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* total = sums + part * 2 * t.size;
      float* chunk = total + t.size;
      const std::int64_t end = rows * (part + 1) / parts;
      for (std::int64_t row = rows * part / parts; row < end;) {
        const std::int64_t stop = std::min(row + kChunkRows, end);
        for (; row < stop; ++row) grad_of_row(t, row, chunk);
        add_array(chunk, total, t.size);
        std::fill_n(chunk, t.size, 0.0F);
      }
    }
  });
  std::fill_n(grad_weight, t.size, 0.0F);
  for (std::int64_t part = 0; part < parts; ++part) {
    add_array(sums + part * 2 * t.size, grad_weight, t.size);
  }
}

}  // namespace

void rms_norm(const KernelArgs& args) {
  using In = RmsNormInput;
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const Tensor x = kernels::dense(args.input(In::kX), Format::kContiguous);
  const std::int64_t size = normalized_shape(x.shape(), attrs).numel();
  const Tensor weight = weights_of(args.input(In::kWeight), size, 1);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    normalize_rows(x.data<T>(), weight, static_cast<float>(attrs.eps), args.outputs);
  });
}

void rms_norm_grad(const KernelArgs& args) {
  using In = RmsNormGradInput;
  const Tensor x = kernels::dense(args.input(In::kX), Format::kContiguous);
  const Tensor grad = kernels::dense(args.input(In::kGrad), Format::kContiguous);
  const Tensor rstds = kernels::dense(args.input(In::kRstd), Format::kContiguous);
  const std::int64_t size = normalized_shape(x.shape(), args.attrs<LayerNormAttrs>()).numel();
  const Tensor weight = weights_of(args.input(In::kWeight), size, 1);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const RmsGradRows<T> rows{x.data<T>(),
                              grad.data<T>(),
                              weight.data<float>(),
                              rstds.data<float>(),
                              args.output().mutable_data<T>(),
                              size};
    grad_of_rows(rows, rstds.numel(), args.output(1).mutable_data<float>());
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(rms_norm);
HWY_EXPORT(rms_norm_grad);

}  // namespace

extern const KernelList rms_norm{{{{"cpu_rows", vector_dtypes_only, [](const KernelArgs& args) {
                                      HWY_DYNAMIC_DISPATCH(rms_norm)(args);
                                    }}}}};
extern const KernelList rms_norm_grad{
    {{{"cpu_rows", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(rms_norm_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
