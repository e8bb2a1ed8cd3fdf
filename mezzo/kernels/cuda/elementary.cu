// More unary pointwise functions, beside those of pointwise.cu.
#include "mezzo/kernels/cuda/pointwise.cuh"
#include "mezzo/ops/elementary_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

struct Log1p {
  __device__ float operator()(float x) const { return log1pf(x); }
};
struct Rsqrt {
  __device__ float operator()(float x) const { return 1.0F / sqrtf(x); }
};
struct Erf {
  __device__ float operator()(float x) const { return erff(x); }
};
struct Sin {
  __device__ float operator()(float x) const { return sinf(x); }
};
struct Cos {
  __device__ float operator()(float x) const { return cosf(x); }
};
struct Softplus {
  float beta;
  __device__ float operator()(float x) const {
    const float t = beta * x;
    return ((t > 0 ? t : 0.0F) + log1pf(expf(-fabsf(t)))) / beta;
  }
};

void run_softplus(const KernelArgs& args) {
  run_unary(args, Softplus{static_cast<float>(args.attrs<SoftplusAttrs>().beta)});
}

}  // namespace

extern const KernelList log1p = unary_kernel<Log1p>();
extern const KernelList rsqrt = unary_kernel<Rsqrt>();
extern const KernelList erf = unary_kernel<Erf>();
extern const KernelList sin = unary_kernel<Sin>();
extern const KernelList cos = unary_kernel<Cos>();
extern const KernelList softplus = only_kernel(run_softplus);

}  // namespace mezzo::kernels::cuda
