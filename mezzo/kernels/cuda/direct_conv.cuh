// Convolutions as plain loops, with a thread or warp per element of the result: for problems that
// cuDNN does not take, and for comparison. All tensors are channels-last, including the weight.
#pragma once

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/rows.cuh"

namespace mezzo::kernels::cuda {

struct DirectConv {
  std::int64_t n, c, h, w;  // of x
  std::int64_t o, group_c;  // output channels, and input channels of a group
  std::int64_t kernel_h, kernel_w;
  std::int64_t out_h, out_w;
  std::int64_t stride_h, stride_w, dilation_h, dilation_w, top, left;
  std::int64_t group_o;  // output channels of a group

  explicit DirectConv(const ConvProblem& p)
      : n(p.x[0]),
        c(p.x[1]),
        h(p.x[2]),
        w(p.x[3]),
        o(p.weight[0]),
        group_c(p.weight[1]),
        kernel_h(p.weight[2]),
        kernel_w(p.weight[3]),
        out_h(p.y[2]),
        out_w(p.y[3]),
        stride_h(p.attrs.stride.h),
        stride_w(p.attrs.stride.w),
        dilation_h(p.attrs.dilation.h),
        dilation_w(p.attrs.dilation.w),
        top(p.attrs.padding.top),
        left(p.attrs.padding.left),
        group_o(p.weight[0] / p.attrs.groups) {}

  // The pixel of x under tap (kh, kw) of output pixel (oh, ow). Returns whether it is in the image.
  __device__ bool pixel(std::int64_t oh, std::int64_t ow, std::int64_t kh, std::int64_t kw,
                        std::int64_t& row, std::int64_t& column) const {
    row = oh * stride_h - top + kh * dilation_h;
    column = ow * stride_w - left + kw * dilation_w;
    return row >= 0 && row < h && column >= 0 && column < w;
  }
  __device__ std::int64_t at_x(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image * h + row) * w + column) * c;
  }
  __device__ std::int64_t at_y(std::int64_t image, std::int64_t oh, std::int64_t ow) const {
    return ((image * out_h + oh) * out_w + ow) * o;
  }
  __device__ std::int64_t at_weight(std::int64_t out, std::int64_t kh, std::int64_t kw) const {
    return ((out * kernel_h + kh) * kernel_w + kw) * group_c;
  }
};

template <class T, class Out>
__global__ void direct_forward_kernel(DirectConv d, const T* x, const T* weight, Out* y) {
  const std::int64_t count = d.n * d.out_h * d.out_w * d.o;
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const std::int64_t out = i % d.o;
    const std::int64_t ow = i / d.o % d.out_w;
    const std::int64_t oh = i / (d.o * d.out_w) % d.out_h;
    const std::int64_t image = i / (d.o * d.out_w * d.out_h);
    const std::int64_t first = out / d.group_o * d.group_c;
    float sum = 0;
    for (std::int64_t kh = 0; kh < d.kernel_h; ++kh) {
      for (std::int64_t kw = 0; kw < d.kernel_w; ++kw) {
        std::int64_t row = 0;
        std::int64_t column = 0;
        if (!d.pixel(oh, ow, kh, kw, row, column)) continue;
        const T* from = x + d.at_x(image, row, column) + first;
        const T* filter = weight + d.at_weight(out, kh, kw);
        for (std::int64_t c = 0; c < d.group_c; ++c) {
          sum = fmaf(widen(from[c]), widen(filter[c]), sum);
        }
      }
    }
    y[i] = narrow<Out>(sum);
  }
}

template <class T, class Out>
__global__ void direct_grad_input_kernel(DirectConv d, const T* grad, const T* weight, Out* x) {
  const std::int64_t count = d.n * d.h * d.w * d.c;
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const std::int64_t c = i % d.c;
    const std::int64_t column = i / d.c % d.w;
    const std::int64_t row = i / (d.c * d.w) % d.h;
    const std::int64_t image = i / (d.c * d.w * d.h);
    const std::int64_t first = c / d.group_c * d.group_o;
    float sum = 0;
    for (std::int64_t kh = 0; kh < d.kernel_h; ++kh) {
      const std::int64_t down = row + d.top - kh * d.dilation_h;
      if (down < 0 || down % d.stride_h != 0 || down / d.stride_h >= d.out_h) continue;
      for (std::int64_t kw = 0; kw < d.kernel_w; ++kw) {
        const std::int64_t across = column + d.left - kw * d.dilation_w;
        if (across < 0 || across % d.stride_w != 0 || across / d.stride_w >= d.out_w) continue;
        const T* from = grad + d.at_y(image, down / d.stride_h, across / d.stride_w);
        for (std::int64_t out = first; out < first + d.group_o; ++out) {
          const float factor = widen(weight[d.at_weight(out, kh, kw) + c % d.group_c]);
          sum = fmaf(widen(from[out]), factor, sum);
        }
      }
    }
    x[i] = narrow<Out>(sum);
  }
}

// Row `row` is one element of the weight; its terms are the output pixels of all images.
template <class T, class Out>
struct DirectGradWeight {
  DirectConv d;
  const T* grad;
  const T* x;
  Out* weight;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t c = row % d.group_c;
    const std::int64_t kw = row / d.group_c % d.kernel_w;
    const std::int64_t kh = row / (d.group_c * d.kernel_w) % d.kernel_h;
    const std::int64_t out = row / (d.group_c * d.kernel_w * d.kernel_h);
    const std::int64_t channel = out / d.group_o * d.group_c + c;
    float sum = 0;
    for (std::int64_t i = Of::lane(); i < rows.size; i += Of::kSize) {
      const std::int64_t ow = i % d.out_w;
      const std::int64_t oh = i / d.out_w % d.out_h;
      const std::int64_t image = i / (d.out_w * d.out_h);
      std::int64_t h = 0;
      std::int64_t w = 0;
      if (!d.pixel(oh, ow, kh, kw, h, w)) continue;
      sum = fmaf(widen(grad[d.at_y(image, oh, ow) + out]), widen(x[d.at_x(image, h, w) + channel]),
                 sum);
    }
    sum = Of::all(sum, SumOf());
    if (Of::lane() == 0) weight[row] = narrow<Out>(sum);
  }
};

// Runs the pass of the problem. Operands have elements T, the result Out.
template <class T, class Out>
void run_direct(const Launch& launch, const ConvProblem& p, const ConvPointers& at) {
  const DirectConv d(p);
  const auto* x = static_cast<const T*>(at.x);
  const auto* weight = static_cast<const T*>(at.weight);
  const auto* y = static_cast<const T*>(at.y);
  if (p.pass == ConvPass::kForward) {
    const int blocks = launch.blocks_for(d.n * d.out_h * d.out_w * d.o);
    direct_forward_kernel<<<blocks, kThreads, 0, launch.stream()>>>(d, x, weight,
                                                                    static_cast<Out*>(at.y));
  } else if (p.pass == ConvPass::kGradInput) {
    const int blocks = launch.blocks_for(d.n * d.h * d.w * d.c);
    direct_grad_input_kernel<<<blocks, kThreads, 0, launch.stream()>>>(d, y, weight,
                                                                       static_cast<Out*>(at.x));
  } else {
    const Rows rows{d.o * d.kernel_h * d.kernel_w * d.group_c, d.n * d.out_h * d.out_w, 1};
    for_rows(launch, DirectGradWeight<T, Out>{d, y, x, static_cast<Out*>(at.weight)}, rows);
  }
  check_launch("a direct convolution");
}

}  // namespace mezzo::kernels::cuda
