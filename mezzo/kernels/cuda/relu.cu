#include "mezzo/kernels/cuda/pointwise.cuh"

namespace mezzo::kernels::cuda {
namespace {

struct Relu {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0F : x; }  // a NaN stays
};
struct ReluGrad {
  __device__ float operator()(float grad, float y) const { return y <= 0 ? 0.0F : grad; }
};

}  // namespace

extern const KernelList relu = unary_kernel<Relu>();
extern const KernelList relu_grad = binary_kernel<ReluGrad>();

}  // namespace mezzo::kernels::cuda
