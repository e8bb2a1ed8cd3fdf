#include "mezzo/kernels/cuda/pointwise.cuh"
#include "mezzo/ops/piecewise_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Each function has two forms: of x, and of the result's gradient and x, which is the gradient.
struct Slope {
  float left;
  __device__ float operator()(float x) const { return x > 0 ? x : left * x; }
  __device__ float operator()(float grad, float x) const { return x > 0 ? grad : left * grad; }
};
struct Bounds {
  float min;
  float max;
  __device__ float operator()(float x) const { return x < min ? min : x > max ? max : x; }
};
struct Inside {
  InsideOfClamp numbers;
  __device__ float operator()(float grad, float x) const {
    return x >= numbers.first && x <= numbers.last ? grad : 0.0F;
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
// Input `x` is the one that is limited.
ClampAttrs bounds_of(const KernelArgs& args, std::size_t x) {
  return bounds_in(args.input(x).dtype(), args.attrs<ClampAttrs>());
}

void run_clamp(const KernelArgs& args) {
  const ClampAttrs bounds = bounds_of(args, 0);
  run_unary(args, Bounds{static_cast<float>(bounds.min), static_cast<float>(bounds.max)});
}

}  // namespace

extern const KernelList leaky_relu =
    only_kernel([](const KernelArgs& args) { run_unary(args, slope_of(args)); });
extern const KernelList leaky_relu_grad =
    only_kernel([](const KernelArgs& args) { run_binary(args, slope_of(args)); });
extern const KernelList clamp = only_kernel(run_clamp);
extern const KernelList clamp_grad = only_kernel(
    [](const KernelArgs& args) { run_binary(args, Inside{inside_of(bounds_of(args, 1))}); });
extern const KernelList abs = unary_kernel<Absolute>();
extern const KernelList abs_grad = binary_kernel<Absolute>();

}  // namespace mezzo::kernels::cuda
