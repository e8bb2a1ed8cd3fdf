// Addition, subtraction, multiplication, division, maximum and minimum, with broadcasting over any
// strides.
#include "mezzo/kernels/cuda/broadcast.cuh"
#include "mezzo/kernels/cuda/pointwise.cuh"
#include "mezzo/ops/affine_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  __device__ float operator()(float a, float b) const { return a / b; }
};
// A comparison with NaN is false: b is kept if it is NaN, so only a must be tested.
struct Maximum {
  __device__ float operator()(float a, float b) const { return a > b || isnan(a) ? a : b; }
  __device__ std::int64_t operator()(std::uint64_t a, std::uint64_t b) const {
    const auto x = static_cast<std::int64_t>(a);
    const auto y = static_cast<std::int64_t>(b);
    return x > y ? x : y;
  }
};
struct Minimum {
  __device__ float operator()(float a, float b) const { return a < b || isnan(a) ? a : b; }
  __device__ std::int64_t operator()(std::uint64_t a, std::uint64_t b) const {
    const auto x = static_cast<std::int64_t>(a);
    const auto y = static_cast<std::int64_t>(b);
    return x < y ? x : y;
  }
};
struct Affine {
  float scale;
  float shift;
  __device__ float operator()(float x) const { return fmaf(x, scale, shift); }
};
// For numbers that f32 does not hold exactly.
struct WideAffine {
  double scale;
  double shift;
  __device__ float operator()(float x) const { return static_cast<float>(x * scale + shift); }
};

struct DivNumber {
  float divisor;
  __device__ float operator()(float x) const { return x / divisor; }
};
struct WideDivNumber {
  double divisor;
  __device__ float operator()(float x) const { return static_cast<float>(x / divisor); }
};

// Computes with unsigned integers, which wrap around where signed ones would be undefined.
template <class F, class T>
struct Integers {
  static constexpr bool kIsRaw = true;
  F f;
  __device__ T operator()(T a, T b) const {
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  }
};

template <class F>
void floats(const KernelArgs& args) {
  visit_vector_dtype(args.output().dtype(), [&]<class T>() { run_broadcast<T, T>(args, F()); });
}

template <class F>
void integers(const KernelArgs& args) {
  const Launch launch(args.output());
  const auto run = [&]<class T>() {
    map_strided(launch, Integers<F, T>(), broadcast_loop(args), out<T>(args.output()),
                in<T>(args.input(0)), in<T>(args.input(1)));
  };
  switch (args.output().dtype()) {
    case DType::kI64: return run.template operator()<std::int64_t>();
    case DType::kI32: return run.template operator()<std::int32_t>();
    default: return run.template operator()<std::uint8_t>();
  }
}

Support integers_only(const KernelArgs& args) {
  const DType dtype = args.output().dtype();
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8
             ? Support::yes()
             : Support::no("only i64, i32 and u8 are integers");
}

template <class F>
constexpr KernelList floats_and_integers() {
  return {{{{"cuda", float_dtypes_only, floats<F>}, {"cuda_integer", integers_only, integers<F>}}}};
}

void run_affine(const KernelArgs& args) {
  const auto& attrs = args.attrs<AffineAttrs>();
  if (!is_in_f32_range(attrs.scale)) return run_unary(args, WideAffine{attrs.scale, attrs.shift});
  run_unary(args, Affine{static_cast<float>(attrs.scale), static_cast<float>(attrs.shift)});
}

void run_div_number(const KernelArgs& args) {
  const double divisor = args.attrs<DivNumberAttrs>().divisor;
  if (!is_in_f32_range(divisor)) return run_unary(args, WideDivNumber{divisor});
  run_unary(args, DivNumber{static_cast<float>(divisor)});
}

}  // namespace

extern const KernelList add = floats_and_integers<Add>();
extern const KernelList add_residual{{{{"cuda", float_dtypes_only, floats<Add>}}}};
extern const KernelList sub = floats_and_integers<Sub>();
extern const KernelList mul = floats_and_integers<Mul>();
extern const KernelList div{{{{"cuda", float_dtypes_only, floats<Div>}}}};
extern const KernelList maximum = floats_and_integers<Maximum>();
extern const KernelList minimum = floats_and_integers<Minimum>();
extern const KernelList affine{{{{"cuda", float_dtypes_only, run_affine}}}};
extern const KernelList div_number{{{{"cuda", float_dtypes_only, run_div_number}}}};

}  // namespace mezzo::kernels::cuda
