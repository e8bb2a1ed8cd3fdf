#include "mezzo/kernels/cuda/pointwise.cuh"
#include "mezzo/ops/piecewise_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The functions of x, and their gradients from the result's and x.
struct Slope {
  float left;
  __device__ float operator()(float x) const { return x > 0 ? x : left * x; }
  __device__ float operator()(float grad, float x) const { return x > 0 ? grad : left * grad; }
};
struct Bounds {
  float min;
  float max;
  __device__ float operator()(float x) const { return x < min ? min : x > max ? max : x; }
  __device__ float operator()(float grad, float x) const {
    return x >= min && x <= max ? grad : 0.0F;
  }
};
struct Absolute {
  __device__ float operator()(float x) const { return fabsf(x); }
  __device__ float operator()(float grad, float x) const {
    return x > 0 ? grad : x < 0 ? -grad : 0.0F;
  }
};

Slope slope_of(const KernelArgs& args) {
  return {static_cast<float>(args.attrs<LeakyReluAttrs>().negative_slope)};
}
Bounds bounds_of(const KernelArgs& args) {
  const auto& attrs = args.attrs<ClampAttrs>();
  return {static_cast<float>(attrs.min), static_cast<float>(attrs.max)};
}

}  // namespace

extern const KernelList leaky_relu =
    only_kernel([](const KernelArgs& args) { run_unary(args, slope_of(args)); });
extern const KernelList leaky_relu_grad =
    only_kernel([](const KernelArgs& args) { run_binary(args, slope_of(args)); });
extern const KernelList clamp =
    only_kernel([](const KernelArgs& args) { run_unary(args, bounds_of(args)); });
extern const KernelList clamp_grad =
    only_kernel([](const KernelArgs& args) { run_binary(args, bounds_of(args)); });
extern const KernelList abs = unary_kernel<Absolute>();
extern const KernelList abs_grad = binary_kernel<Absolute>();

}  // namespace mezzo::kernels::cuda
