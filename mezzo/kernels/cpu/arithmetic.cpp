// Addition, subtraction, multiplication and division with broadcasting over any strides.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/loop.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/affine_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// One operand of a run: `stride` elements from one to the next.
template <class T>
struct Run {
  T* data;
  std::int64_t stride;
};

// A run as f32 vectors: neighbours are loaded, a single number is repeated.
struct Neighbours {
  template <class T>
  static HWY_INLINE F32Vec get(const T* p, std::int64_t i) {
    return load(p + i);
  }
  template <class T>
  static HWY_INLINE F32Vec get_part(const T* p, std::int64_t i, std::int64_t count) {
    return load_part(p + i, count);
  }
};
struct Repeated {
  template <class T>
  static HWY_INLINE F32Vec get(const T* p, std::int64_t) {
    return hn::Set(F32(), static_cast<float>(*p));
  }
  template <class T>
  static HWY_INLINE F32Vec get_part(const T* p, std::int64_t, std::int64_t) {
    return get(p, 0);
  }
};

template <class A, class B, class T, class Function>
HWY_INLINE void combine_dense(const T* a, const T* b, T* out, std::int64_t n, const Function& f) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= n; i += step) store(f(A::get(a, i), B::get(b, i)), out + i);
  if (i < n) store_part(f(A::get_part(a, i, n - i), B::get_part(b, i, n - i)), out + i, n - i);
}

// Runs whose elements lie apart go through small dense buffers.
template <class T, class Function>
void combine_strided(Run<const T> a, Run<const T> b, Run<T> out, std::int64_t n,
                     const Function& f) {
  constexpr std::int64_t kBuffer = 256;
  T buffer_a[kBuffer];
  T buffer_b[kBuffer];
  for (std::int64_t first = 0; first < n; first += kBuffer) {
    const std::int64_t count = std::min(kBuffer, n - first);
    for (std::int64_t i = 0; i < count; ++i) {
      buffer_a[i] = a.data[(first + i) * a.stride];
      buffer_b[i] = b.data[(first + i) * b.stride];
    }
    combine_dense<Neighbours, Neighbours>(buffer_a, buffer_b, buffer_a, count, f);
    for (std::int64_t i = 0; i < count; ++i) out.data[(first + i) * out.stride] = buffer_a[i];
  }
}

template <class T, class Function>
void combine(Run<const T> a, Run<const T> b, Run<T> out, std::int64_t n, const Function& f) {
  const bool dense = out.stride == 1;
  if (dense && a.stride == 1 && b.stride == 1) {
    combine_dense<Neighbours, Neighbours>(a.data, b.data, out.data, n, f);
  } else if (dense && a.stride == 1 && b.stride == 0) {
    combine_dense<Neighbours, Repeated>(a.data, b.data, out.data, n, f);
  } else if (dense && a.stride == 0 && b.stride == 1) {
    combine_dense<Repeated, Neighbours>(a.data, b.data, out.data, n, f);
  } else {
    combine_strided(a, b, out, n, f);
  }
}

template <class Function>
void binary(const KernelArgs& args, const Function& f) {
  const Tensor& a = args.input(0);
  const Tensor& b = args.input(1);
  const Tensor& out = args.output();
  const Shape& shape = out.shape();
  const auto loop = kernels::make_loop<3>(
      shape,
      {out.strides(), kernels::broadcast_strides(a, shape), kernels::broadcast_strides(b, shape)});
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* po = out.mutable_data<T>();
    parallel_for(loop.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels::for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
        combine(Run<const T>{pa + at[1], loop.inner_stride(1)},
                Run<const T>{pb + at[2], loop.inner_stride(2)},
                Run<T>{po + at[0], loop.inner_stride(0)}, count, f);
      });
    });
  });
}

}  // namespace

void add(const KernelArgs& args) {
  binary(args, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Add(a, b); });
}
void sub(const KernelArgs& args) {
  binary(args, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Sub(a, b); });
}
void mul(const KernelArgs& args) {
  binary(args, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Mul(a, b); });
}
void div(const KernelArgs& args) {
  binary(args, [](F32Vec a, F32Vec b) HWY_ATTR { return hn::Div(a, b); });
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

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(add);
HWY_EXPORT(sub);
HWY_EXPORT(mul);
HWY_EXPORT(div);
HWY_EXPORT(affine);

Support integers_only(const KernelArgs& args) {
  const DType dtype = args.output().dtype();
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8
             ? Support::yes()
             : Support::no("only i64, i32 and u8 are integers");
}

// f computes in unsigned numbers, which wrap around where signed ones would be undefined.
template <class Function>
void integers(const KernelArgs& args, const Function& f) {
  const Tensor& a = args.input(0);
  const Tensor& b = args.input(1);
  const Tensor& out = args.output();
  const Shape& shape = out.shape();
  const auto loop = make_loop<3>(
      shape, {out.strides(), broadcast_strides(a, shape), broadcast_strides(b, shape)});
  const auto run = [&]<class T>() {
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
  };
  if (out.dtype() == DType::kI64) {
    run.template operator()<std::int64_t>();
  } else if (out.dtype() == DType::kI32) {
    run.template operator()<std::int32_t>();
  } else {
    run.template operator()<std::uint8_t>();
  }
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

using RunKernel = void (*)(const KernelArgs&);
constexpr KernelList list(RunKernel simd, RunKernel integer) {
  return {{{{"cpu_simd", vector_dtypes_only, simd}, {"cpu_integer", integers_only, integer}}}};
}

void add_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add)(args); }
void sub_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sub)(args); }
void mul_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(mul)(args); }
void div_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(div)(args); }
void affine_floats(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(affine)(args); }

}  // namespace

extern const KernelList add = list(add_floats, add_integers);
extern const KernelList sub = list(sub_floats, sub_integers);
extern const KernelList mul = list(mul_floats, mul_integers);
extern const KernelList div{{{{"cpu_simd", vector_dtypes_only, div_floats}}}};
extern const KernelList affine{{{{"cpu_simd", vector_dtypes_only, affine_floats}}}};

}  // namespace mezzo::kernels::cpu
#endif
