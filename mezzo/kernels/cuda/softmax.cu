// Softmax, its logarithm, and their gradients along one axis.
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/axis_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Reads N elements at a time, N being 1 if a row's elements are strided. Whether logarithms are
// wanted is a run-time choice: all threads take the same branch, and memory is the bottleneck.
template <int N, class T>
struct Softmax {
  const T* x;
  T* out;
  bool is_log;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = rows.start(row);
    float largest = -INFINITY;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + start + j * rows.inner, values);
#pragma unroll
      for (int k = 0; k < N; ++k) largest = fmaxf(largest, values[k]);
    });
    // The largest is subtracted: exp of anything above 88 would be infinite.
    largest = Of::all(largest, LargestOf());
    float total = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + start + j * rows.inner, values);
#pragma unroll
      for (int k = 0; k < N; ++k) total += expf(values[k] - largest);
    });
    total = Of::all(total, SumOf());
    const float log_total = logf(total);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + start + j * rows.inner, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float shifted = values[k] - largest;
        values[k] = is_log ? shifted - log_total : expf(shifted) / total;
      }
      store(values, out + start + j * rows.inner);
    });
  }
};

template <int N, class T>
struct SoftmaxGrad {
  const T* grad;
  const T* y;
  T* out;
  bool is_log;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t start = rows.start(row);
    float total = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float values[N];
      load(grad + start + j * rows.inner, grads);
      load(y + start + j * rows.inner, values);
#pragma unroll
      for (int k = 0; k < N; ++k) total += is_log ? grads[k] : grads[k] * values[k];
    });
    total = Of::all(total, SumOf());
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float grads[N];
      float values[N];
      load(grad + start + j * rows.inner, grads);
      load(y + start + j * rows.inner, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        values[k] = is_log ? grads[k] - expf(values[k]) * total : values[k] * (grads[k] - total);
      }
      store(values, out + start + j * rows.inner);
    });
  }
};

Rows rows_of(const KernelArgs& args) {
  const Tensor& output = args.output();
  const std::int64_t axis = args.attrs<AxisAttrs>().axis;
  return rows_along(output.shape(), normalize_axis(axis, output.rank(), "softmax"),
                    output.format());
}

// Calls use.operator()<N>(start) for rows that are read N elements at a time; start(op) launches
// the kernel.
template <class T, class Use>
void visit_rows(const Launch& launch, const Rows& rows, std::initializer_list<const void*> memory,
                const Use& use) {
  if (rows.inner > 1) {
    use.template operator()<1>([&](const auto& op) { for_strided_rows(launch, op, rows); });
  } else {
    visit_packs<T>(rows.size, memory, [&]<int N>() {
      use.template operator()<N>([&](const auto& op) { for_dense_rows(launch, op, rows); });
    });
  }
}

template <bool kLog>
void forward(const KernelArgs& args) {
  const Launch launch(args.output());
  const Tensor x = dense(args.input(0), args.output().format());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const auto* from = in<T>(x);
    auto* to = out<T>(args.output());
    visit_rows<T>(launch, rows_of(args), {from, to}, [&]<int N>(const auto& start) {
      start(Softmax<N, T>{from, to, kLog});
    });
  });
}

template <bool kLog>
void backward(const KernelArgs& args) {
  const Launch launch(args.output());
  const Tensor grad = dense(args.input(0), args.output().format());
  const Tensor y = dense(args.input(1), args.output().format());
  visit_vector_dtype(y.dtype(), [&]<class T>() {
    const auto* of_y = in<T>(grad);
    const auto* from = in<T>(y);
    auto* to = out<T>(args.output());
    visit_rows<T>(launch, rows_of(args), {of_y, from, to}, [&]<int N>(const auto& start) {
      start(SoftmaxGrad<N, T>{of_y, from, to, kLog});
    });
  });
}

}  // namespace

extern const KernelList softmax{{{{"cuda", float_dtypes_only, forward<false>}}}};
extern const KernelList log_softmax{{{{"cuda", float_dtypes_only, forward<true>}}}};
extern const KernelList softmax_grad{{{{"cuda", float_dtypes_only, backward<false>}}}};
extern const KernelList log_softmax_grad{{{{"cuda", float_dtypes_only, backward<true>}}}};

}  // namespace mezzo::kernels::cuda
