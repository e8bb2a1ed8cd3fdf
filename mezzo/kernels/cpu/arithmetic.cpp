// Addition, subtraction, multiplication, division, maximum and minimum, with broadcasting over any
// strides.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/affine_attrs.h"

namespace mezzo::kernels {

// out[i] = f(a[i], b[i]).
using CombineRow = void (*)(const void* a, const void* b, void* out, std::int64_t count);
// For two rows; for a row and a number; for a number and a row.
using CombineRows = std::array<CombineRow, 3>;

}  // namespace mezzo::kernels

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// Reads a row as f32 vectors: contiguous elements are loaded, a single number is broadcast.
struct Neighbours {
  template <class T>
  static HWY_INLINE F32Vec get(const T* p, std::int64_t i, auto asks) {
    return load(p + i, asks);
  }
  template <class T>
  static HWY_INLINE F32Vec get_part(const T* p, std::int64_t i, std::int64_t count) {
    return load_part(p + i, count);
  }
};
struct Repeated {
  template <class T>
  static HWY_INLINE F32Vec get(const T* p, std::int64_t, auto /*asks*/) {
    return hn::Set(F32(), static_cast<float>(*p));
  }
  template <class T>
  static HWY_INLINE F32Vec get_part(const T* p, std::int64_t, std::int64_t) {
    return get(p, 0, AsksNot());
  }
};

// Function must be a lambda without captures.
template <class A, class B, class T, class Function>
void combine_row(const void* from_a, const void* from_b, void* to, std::int64_t n) {
  const auto* a = static_cast<const T*>(from_a);
  const auto* b = static_cast<const T*>(from_b);
  auto* out = static_cast<T*>(to);
  const Function f;
  const std::int64_t i = for_whole_vectors(0, n, [&](std::int64_t k, auto asks) HWY_ATTR {
    store(f(A::get(a, k, asks), B::get(b, k, asks)), out + k, asks);
  });
  if (i < n) store_part(f(A::get_part(a, i, n - i), B::get_part(b, i, n - i)), out + i, n - i);
}

template <class Function>
kernels::CombineRows rows_of(DType dtype, Function) {
  kernels::CombineRows rows{};
  kernels::visit_vector_dtype(dtype, [&]<class T>() {
    rows = {combine_row<Neighbours, Neighbours, T, Function>,
            combine_row<Neighbours, Repeated, T, Function>,
            combine_row<Repeated, Neighbours, T, Function>};
  });
  return rows;
}

}  // namespace

kernels::CombineRows add_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Add(a, b); });
}
kernels::CombineRows sub_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Sub(a, b); });
}
kernels::CombineRows mul_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Mul(a, b); });
}
kernels::CombineRows div_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Div(a, b); });
}
// A comparison with NaN is false: b is kept if it is NaN, so only a must be tested.
kernels::CombineRows maximum_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  });
}
kernels::CombineRows minimum_rows(DType dtype) {
  return rows_of(dtype, [](F32Vec a, F32Vec b) HWY_ATTR {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  });
}

void affine(const KernelArgs& args) {
  const auto& attrs = args.attrs<AffineAttrs>();
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), out.format());
  const auto scale = static_cast<float>(attrs.scale);
  const auto shift = static_cast<float>(attrs.shift);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    map(x.data<T>(), out.mutable_data<T>(), x.numel(), [=](F32Vec v) HWY_ATTR {
      return hn::MulAdd(v, hn::Set(F32(), scale), hn::Set(F32(), shift));
    });
  });
}

void div_number(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), out.format());
  const auto divisor = static_cast<float>(args.attrs<DivNumberAttrs>().divisor);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    map(x.data<T>(), out.mutable_data<T>(), x.numel(),
        [=](F32Vec v) HWY_ATTR { return hn::Div(v, hn::Set(F32(), divisor)); });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(add_rows);
HWY_EXPORT(sub_rows);
HWY_EXPORT(mul_rows);
HWY_EXPORT(div_rows);
HWY_EXPORT(maximum_rows);
HWY_EXPORT(minimum_rows);
HWY_EXPORT(affine);
HWY_EXPORT(div_number);

Loop<3> broadcast_loop(const KernelArgs& args) {
  const Shape& shape = args.output().shape();
  return make_loop<3>(shape, {args.output().strides(), broadcast_strides(args.input(0), shape),
                              broadcast_strides(args.input(1), shape)});
}

// The inner loop for the loop's strides; null if elements are strided.
CombineRow choose_row(const CombineRows& rows, const Loop<3>& loop) {
  const std::int64_t a = loop.inner_stride(1);
  const std::int64_t b = loop.inner_stride(2);
  if (loop.inner_stride(0) != 1) return nullptr;
  if (a == 1 && b == 1) return rows[0];
  if (a == 1 && b == 0) return rows[1];
  return a == 0 && b == 1 ? rows[2] : nullptr;
}

// One operand of a strided run.
template <class Byte>
struct Run {
  Byte* data;
  std::int64_t stride;  // in elements
};

// Combines strided runs through small dense buffers. `size`: bytes per element.
void combine_strided(Run<const std::byte> a, Run<const std::byte> b, Run<std::byte> out,
                     std::int64_t n, std::int64_t size, CombineRow combine_row) {
  constexpr std::int64_t kBuffer = 256;
  alignas(64) std::byte buffer_a[kBuffer * sizeof(float)];
  alignas(64) std::byte buffer_b[kBuffer * sizeof(float)];
  for (std::int64_t first = 0; first < n; first += kBuffer) {
    const std::int64_t count = std::min(kBuffer, n - first);
    copy_strided(size, a.data + first * a.stride * size, a.stride, buffer_a, 1, count);
    copy_strided(size, b.data + first * b.stride * size, b.stride, buffer_b, 1, count);
    combine_row(buffer_a, buffer_b, buffer_a, count);
    copy_strided(size, buffer_a, 1, out.data + first * out.stride * size, out.stride, count);
  }
}

void combine(const KernelArgs& args, const CombineRows& rows) {
  const Loop<3> loop = broadcast_loop(args);
  const CombineRow row = choose_row(rows, loop);
  const auto size = static_cast<std::int64_t>(size_of(args.output().dtype()));
  const auto* a = static_cast<const std::byte*>(args.input(0).raw_data());
  const auto* b = static_cast<const std::byte*>(args.input(1).raw_data());
  auto* out = static_cast<std::byte*>(args.output().mutable_raw_data());
  parallel_for(loop.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
      const std::byte* from_a = a + at[1] * size;
      const std::byte* from_b = b + at[2] * size;
      std::byte* to = out + at[0] * size;
      if (row != nullptr) {
        row(from_a, from_b, to, count);
      } else {
        combine_strided({from_a, loop.inner_stride(1)}, {from_b, loop.inner_stride(2)},
                        {to, loop.inner_stride(0)}, count, size, rows[0]);
      }
    });
  });
}

// f computes with unsigned integers, which wrap around where signed ones would be undefined.
template <class Function>
void integers(const KernelArgs& args, const Function& f) {
  const Tensor& a = args.input(0);
  const Tensor& b = args.input(1);
  const Tensor& out = args.output();
  const Loop<3> loop = broadcast_loop(args);
  visit_integer_dtype(out.dtype(), [&]<class T>() {
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* po = out.mutable_data<T>();
    for_each_run(loop, 0, loop.numel(), [&](const auto& at, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<std::uint64_t>(pa[at[1] + i * loop.inner_stride(1)]);
        const auto y = static_cast<std::uint64_t>(pb[at[2] + i * loop.inner_stride(2)]);
        po[at[0] + i * loop.inner_stride(0)] = static_cast<T>(f(x, y));
      }
    });
  });
}

void add_integers(const KernelArgs& args) {
  integers(args, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}
void sub_integers(const KernelArgs& args) {
  integers(args, [](std::uint64_t a, std::uint64_t b) { return a - b; });
}
void mul_integers(const KernelArgs& args) {
  integers(args, [](std::uint64_t a, std::uint64_t b) { return a * b; });
}
// Compares as signed integers.
void maximum_integers(const KernelArgs& args) {
  integers(args, [](std::uint64_t a, std::uint64_t b) {
    return std::max(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  });
}
void minimum_integers(const KernelArgs& args) {
  integers(args, [](std::uint64_t a, std::uint64_t b) {
    return std::min(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  });
}

using RunKernel = void (*)(const KernelArgs&);
constexpr KernelList list(RunKernel simd, RunKernel integer) {
  return {{{{"cpu_simd", vector_dtypes_only, simd}, {"cpu_integer", integers_only, integer}}}};
}

void add_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(add_rows)(args.output().dtype()));
}
void sub_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(sub_rows)(args.output().dtype()));
}
void mul_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(mul_rows)(args.output().dtype()));
}
void div_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(div_rows)(args.output().dtype()));
}
void maximum_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(maximum_rows)(args.output().dtype()));
}
void minimum_floats(const KernelArgs& args) {
  combine(args, HWY_DYNAMIC_DISPATCH(minimum_rows)(args.output().dtype()));
}
void affine_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(affine)(args); }
void div_number_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(div_number)(args); }

Support supports_number(const KernelArgs& args, double number) {
  return is_in_f32_range(number) ? vector_dtypes_only(args)
                                 : Support::no("the number is outside the range of f32");
}
Support supports_affine(const KernelArgs& args) {
  return supports_number(args, args.attrs<AffineAttrs>().scale);
}
Support supports_div_number(const KernelArgs& args) {
  return supports_number(args, args.attrs<DivNumberAttrs>().divisor);
}

}  // namespace

extern const KernelList add = list(add_floats, add_integers);
extern const KernelList add_residual{{{{"cpu_simd", vector_dtypes_only, add_floats}}}};
extern const KernelList sub = list(sub_floats, sub_integers);
extern const KernelList mul = list(mul_floats, mul_integers);
extern const KernelList div{{{{"cpu_simd", vector_dtypes_only, div_floats}}}};
extern const KernelList maximum = list(maximum_floats, maximum_integers);
extern const KernelList minimum = list(minimum_floats, minimum_integers);
extern const KernelList affine{{{{"cpu_simd", supports_affine, affine_floats}}}};
extern const KernelList div_number{{{{"cpu_simd", supports_div_number, div_number_floats}}}};

}  // namespace mezzo::kernels::cpu
#endif
