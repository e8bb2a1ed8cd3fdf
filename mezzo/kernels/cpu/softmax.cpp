// Softmax, its logarithm and their gradients along any axis of a dense tensor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/softmax.cpp"
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/axis_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// The vectors of one row whose elements are contiguous: lanes are elements of the row.
struct AlongRow {
  std::int64_t n;
  std::int64_t steps = ceil_div(n, lanes());

  template <class T>
  HWY_INLINE F32Vec get(const T* p, std::int64_t i, float fill) const {
    const std::int64_t left = n - i * lanes();
    if (left >= lanes()) return load(p + i * lanes());
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(left));
    return hn::IfThenElse(valid, load_part(p + i * lanes(), left), number(fill));
  }
  template <class T>
  HWY_INLINE void put(F32Vec v, T* p, std::int64_t i) const {
    const std::int64_t left = n - i * lanes();
    if (left >= lanes()) {
      store(v, p + i * lanes());
    } else {
      store_part(v, p + i * lanes(), left);
    }
  }
  HWY_INLINE F32Vec sum(F32Vec v) const { return hn::SumOfLanes(F32(), v); }
  HWY_INLINE F32Vec max(F32Vec v) const { return hn::MaxOfLanes(F32(), v); }
};

// The vectors of several adjacent rows: lanes are rows, and elements of a row are `stride` apart.
struct AcrossRows {
  std::int64_t steps;
  std::int64_t stride;
  std::int64_t width;  // rows, at most lanes()

  template <class T>
  HWY_INLINE F32Vec get(const T* p, std::int64_t i, float /*fill*/) const {
    return width == lanes() ? load(p + i * stride) : load_part(p + i * stride, width);
  }
  template <class T>
  HWY_INLINE void put(F32Vec v, T* p, std::int64_t i) const {
    if (width == lanes()) {
      store(v, p + i * stride);
    } else {
      store_part(v, p + i * stride, width);
    }
  }
  HWY_INLINE F32Vec sum(F32Vec v) const { return v; }
  HWY_INLINE F32Vec max(F32Vec v) const { return v; }
};

// A sum in blocks, so that its error does not grow with the length of a row.
class BlockedSum {
 public:
  BlockedSum() : total_(hn::Zero(F32())), part_(hn::Zero(F32())) {}
  HWY_INLINE void add(F32Vec v) {
    part_ = hn::Add(part_, v);
    if (++count_ == 64) {
      total_ = hn::Add(total_, part_);
      part_ = hn::Zero(F32());
      count_ = 0;
    }
  }
  HWY_INLINE F32Vec total() const { return hn::Add(total_, part_); }

 private:
  F32Vec total_;
  F32Vec part_;
  int count_ = 0;
};

constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <class Rows, class T>
HWY_INLINE F32Vec max_of(const Rows& rows, const T* x) {
  F32Vec largest = number(kLowest);
  for (std::int64_t i = 0; i < rows.steps; ++i) {
    largest = hn::Max(largest, rows.get(x, i, kLowest));
  }
  return rows.max(largest);
}

struct Softmax {
  // buffer holds the exponentials in f32: rounding them to 16 bits before the division would round
  // twice.
  template <class Rows, class T>
  static void run(const Rows& rows, const T* x, const T*, T* y, float* buffer) {
    const auto largest = max_of(rows, x);
    BlockedSum total;
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      const auto e = exp(hn::Sub(rows.get(x, i, kLowest), largest));
      hn::StoreU(e, F32(), buffer + i * lanes());
      total.add(e);
    }
    const auto scale = hn::Div(number(1.0F), rows.sum(total.total()));
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      rows.put(hn::Mul(hn::LoadU(F32(), buffer + i * lanes()), scale), y, i);
    }
  }
};

struct LogSoftmax {
  template <class Rows, class T>
  static void run(const Rows& rows, const T* x, const T*, T* y, float*) {
    const auto largest = max_of(rows, x);
    BlockedSum total;
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      total.add(exp(hn::Sub(rows.get(x, i, kLowest), largest)));
    }
    const auto log_total = log(rows.sum(total.total()));
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      rows.put(hn::Sub(hn::Sub(rows.get(x, i, 0), largest), log_total), y, i);
    }
  }
};

struct SoftmaxGrad {
  template <class Rows, class T>
  static void run(const Rows& rows, const T* grad, const T* y, T* out, float*) {
    BlockedSum total;
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      total.add(hn::Mul(rows.get(grad, i, 0), rows.get(y, i, 0)));
    }
    const auto inner = rows.sum(total.total());
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      rows.put(hn::Mul(rows.get(y, i, 0), hn::Sub(rows.get(grad, i, 0), inner)), out, i);
    }
  }
};

struct LogSoftmaxGrad {
  template <class Rows, class T>
  static void run(const Rows& rows, const T* grad, const T* y, T* out, float*) {
    BlockedSum total;
    for (std::int64_t i = 0; i < rows.steps; ++i) total.add(rows.get(grad, i, 0));
    const auto sum = rows.sum(total.total());
    for (std::int64_t i = 0; i < rows.steps; ++i) {
      rows.put(hn::NegMulAdd(exp(rows.get(y, i, 0)), sum, rows.get(grad, i, 0)), out, i);
    }
  }
};

// The axis in memory: `outer` blocks of n slices, each a run of `inner` elements.
struct AxisInMemory {
  std::int64_t outer;
  std::int64_t n;
  std::int64_t inner;
};

AxisInMemory find_axis(const Tensor& dense, std::int64_t axis) {
  const std::size_t i = normalize_axis(axis, dense.rank(), "softmax");
  const Strides strides = strides_for(dense.shape(), dense.format());
  const std::int64_t n = dense.shape()[i];
  return {dense.numel() / (n * strides[i]), n, strides[i]};
}

// The inputs (the second may be the first again) and the output of a call.
template <class T>
struct Operands {
  const T* a;
  const T* b;
  T* out;
};

template <class Function, class T>
void for_rows_of_neighbours(const Operands<T>& x, const AxisInMemory& axis, std::int64_t grain) {
  parallel_for(axis.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    const AlongRow rows{axis.n};
    std::vector<float> buffer(static_cast<std::size_t>(rows.steps * lanes()));
    for (std::int64_t at = begin * axis.n; at < end * axis.n; at += axis.n) {
      Function::run(rows, x.a + at, x.b + at, x.out + at, buffer.data());
    }
  });
}

template <class Function, class T>
void for_rows_side_by_side(const Operands<T>& x, const AxisInMemory& axis, std::int64_t grain) {
  const std::int64_t groups = ceil_div(axis.inner, lanes());
  parallel_for(axis.outer * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> buffer(static_cast<std::size_t>(axis.n * lanes()));
    for (std::int64_t g = begin; g < end; ++g) {
      const std::int64_t first = g % groups * lanes();
      const AcrossRows rows{axis.n, axis.inner, std::min(lanes(), axis.inner - first)};
      const std::int64_t at = g / groups * axis.n * axis.inner + first;
      Function::run(rows, x.a + at, x.b + at, x.out + at, buffer.data());
    }
  });
}

template <class Function>
void for_rows(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor a = kernels::dense(args.input(0), out.format());
  const Tensor b = args.inputs.size() > 1 ? kernels::dense(args.input(1), out.format()) : a;
  const AxisInMemory axis = find_axis(out, args.attrs<AxisAttrs>().axis);
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 4 / axis.n);
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    const Operands<T> operands{a.data<T>(), b.data<T>(), out.mutable_data<T>()};
    if (axis.inner == 1) {
      for_rows_of_neighbours<Function>(operands, axis, grain);
    } else {
      for_rows_side_by_side<Function>(operands, axis, grain);
    }
  });
}

}  // namespace

void softmax(const KernelArgs& args) { for_rows<Softmax>(args); }
void log_softmax(const KernelArgs& args) { for_rows<LogSoftmax>(args); }
void softmax_grad(const KernelArgs& args) { for_rows<SoftmaxGrad>(args); }
void log_softmax_grad(const KernelArgs& args) { for_rows<LogSoftmaxGrad>(args); }

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(softmax);
HWY_EXPORT(log_softmax);
HWY_EXPORT(softmax_grad);
HWY_EXPORT(log_softmax_grad);

}  // namespace

extern const KernelList softmax{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                     HWY_DYNAMIC_DISPATCH(softmax)(args);
                                   }}}}};
extern const KernelList log_softmax{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                         HWY_DYNAMIC_DISPATCH(log_softmax)(args);
                                       }}}}};
extern const KernelList softmax_grad{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                          HWY_DYNAMIC_DISPATCH(softmax_grad)(args);
                                        }}}}};
extern const KernelList log_softmax_grad{
    {{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(log_softmax_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
