// Unary pointwise functions.
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/pointwise.cuh"

namespace mezzo::kernels::cuda {
namespace {

struct Exp {
  __device__ float operator()(float x) const { return expf(x); }
};
struct Log {
  __device__ float operator()(float x) const { return logf(x); }
};
struct Sqrt {
  __device__ float operator()(float x) const { return sqrtf(x); }
};
struct Sigmoid {
  __device__ float operator()(float x) const { return functions::sigmoid(x); }
};
struct SigmoidGrad {
  __device__ float operator()(float grad, float y) const { return grad * (y * (1.0F - y)); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct TanhGrad {
  // (1 - y) (1 + y): y * y would round before 1 - y * y cancels.
  __device__ float operator()(float grad, float y) const {
    return grad * ((1.0F - y) * (1.0F + y));
  }
};
struct Gelu {
  __device__ float operator()(float x) const { return functions::gelu(x); }
};
struct GeluTanh {
  __device__ float operator()(float x) const { return functions::gelu_tanh(x); }
};
struct GeluGrad {
  __device__ float operator()(float grad, float x) const {
    return grad * functions::gelu_derivative(x);
  }
};
struct GeluTanhGrad {
  __device__ float operator()(float grad, float x) const {
    return grad * functions::gelu_tanh_derivative(x);
  }
};

struct Silu {
  __device__ float operator()(float x) const { return functions::silu(x); }
};
struct SiluGrad {
  __device__ float operator()(float grad, float x) const {
    return grad * functions::silu_derivative(x);
  }
};

// Small integer powers by multiplication, which rounds once or twice; powf takes ten times as long.
template <int kPower>
struct WholePower {
  __device__ float operator()(float x) const {
    if constexpr (kPower == 0) return 1.0F;
    if constexpr (kPower == 1) return x;
    if constexpr (kPower == 2) return x * x;
    if constexpr (kPower == 3) return x * x * x;
    return 1.0F / x;
  }
};
struct Power {
  float exponent;
  __device__ float operator()(float x) const { return powf(x, exponent); }
};
// For exponents that f32 does not hold exactly: rounding 1/3 alone would change pow(1e30, 1/3) in
// its sixth digit.
struct PowerInDouble {
  double exponent;
  __device__ float operator()(float x) const {
    return static_cast<float>(::pow(static_cast<double>(x), exponent));
  }
};

void run_pow(const KernelArgs& args) {
  const double exponent = args.attrs<PowAttrs>().exponent;
  if (exponent == 0) return run_unary(args, WholePower<0>());
  if (exponent == 1) return run_unary(args, WholePower<1>());
  if (exponent == 2) return run_unary(args, WholePower<2>());
  if (exponent == 3) return run_unary(args, WholePower<3>());
  if (exponent == -1) return run_unary(args, WholePower<-1>());
  const auto in_f32 = static_cast<float>(exponent);
  if (in_f32 == exponent) return run_unary(args, Power{in_f32});
  run_unary(args, PowerInDouble{exponent});
}

void run_gelu(const KernelArgs& args) {
  if (args.attrs<GeluAttrs>().form == GeluForm::kExact) return run_unary(args, Gelu());
  run_unary(args, GeluTanh());
}

void run_gelu_grad(const KernelArgs& args) {
  if (args.attrs<GeluAttrs>().form == GeluForm::kExact) return run_binary(args, GeluGrad());
  run_binary(args, GeluTanhGrad());
}

}  // namespace

extern const KernelList exp = unary_kernel<Exp>();
extern const KernelList log = unary_kernel<Log>();
extern const KernelList sqrt = unary_kernel<Sqrt>();
extern const KernelList pow = only_kernel(run_pow);
extern const KernelList sigmoid = unary_kernel<Sigmoid>();
extern const KernelList sigmoid_grad = binary_kernel<SigmoidGrad>();
extern const KernelList tanh = unary_kernel<Tanh>();
extern const KernelList tanh_grad = binary_kernel<TanhGrad>();
extern const KernelList gelu = only_kernel(run_gelu);
extern const KernelList gelu_grad = only_kernel(run_gelu_grad);
extern const KernelList silu = unary_kernel<Silu>();
extern const KernelList silu_grad = binary_kernel<SiluGrad>();

}  // namespace mezzo::kernels::cuda
