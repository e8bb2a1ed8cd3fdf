// Softmax, its logarithm, and their gradients along one axis.
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/axis_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

template <class T, bool kLog>
struct Softmax {
  const T* x;
  T* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = rows.start(row);
    float largest = -INFINITY;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      largest = fmaxf(largest, widen(x[start + j * rows.inner]));
    }
    // The largest is taken away: exp of anything above 88 would be infinite.
    largest = Of::all(largest, LargestOf());
    float total = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      total += expf(widen(x[start + j * rows.inner]) - largest);
    }
    total = Of::all(total, SumOf());
    const float log_total = logf(total);
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const std::int64_t at = start + j * rows.inner;
      const float shifted = widen(x[at]) - largest;
      out[at] = narrow<T>(kLog ? shifted - log_total : expf(shifted) / total);
    }
  }
};

template <class T, bool kLog>
struct SoftmaxGrad {
  const T* grad;
  const T* y;
  T* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = rows.start(row);
    float total = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const std::int64_t at = start + j * rows.inner;
      total += kLog ? widen(grad[at]) : widen(grad[at]) * widen(y[at]);
    }
    total = Of::all(total, SumOf());
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const std::int64_t at = start + j * rows.inner;
      const float g = widen(grad[at]);
      const float value = widen(y[at]);
      out[at] = narrow<T>(kLog ? g - expf(value) * total : value * (g - total));
    }
  }
};

Rows rows_of(const KernelArgs& args) {
  const Tensor& output = args.output();
  const std::int64_t axis = args.attrs<AxisAttrs>().axis;
  return rows_along(output.shape(), normalize_axis(axis, output.rank(), "softmax"),
                    output.format());
}

template <bool kLog>
void forward(const KernelArgs& args) {
  const Launch launch(args.output());
  const Tensor x = dense(args.input(0), args.output().format());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    for_rows(launch, Softmax<T, kLog>{in<T>(x), out<T>(args.output())}, rows_of(args));
  });
}

template <bool kLog>
void backward(const KernelArgs& args) {
  const Launch launch(args.output());
  const Tensor grad = dense(args.input(0), args.output().format());
  const Tensor y = dense(args.input(1), args.output().format());
  visit_vector_dtype(y.dtype(), [&]<class T>() {
    for_rows(launch, SoftmaxGrad<T, kLog>{in<T>(grad), in<T>(y), out<T>(args.output())},
             rows_of(args));
  });
}

}  // namespace

extern const KernelList softmax{{{{"cuda", float_dtypes_only, forward<false>}}}};
extern const KernelList log_softmax{{{{"cuda", float_dtypes_only, forward<true>}}}};
extern const KernelList softmax_grad{{{{"cuda", float_dtypes_only, backward<false>}}}};
extern const KernelList log_softmax_grad{{{{"cuda", float_dtypes_only, backward<true>}}}};

}  // namespace mezzo::kernels::cuda
