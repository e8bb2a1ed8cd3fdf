#include <algorithm>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls use(i, k, o) for every product x[i] * weight[k] that is part of the result's element o.
template <class Use>
void for_each_product(const Shape& x, const Shape& weight, const Shape& out,
                      const Conv2dAttrs& attrs, Use use) {
  const std::int64_t group_outputs = weight[0] / attrs.groups;
  const Shape all{out[0], out[1], out[2], out[3], weight[1]};
  for (std::int64_t flat = 0; flat < all.numel(); ++flat) {
    std::int64_t rest = flat;
    std::array<std::int64_t, 5> at{};
    for (std::size_t axis = 5; axis-- > 0; rest /= all[axis]) at[axis] = rest % all[axis];
    const auto [n, o, oh, ow, c] = at;
    const std::int64_t channel = o / group_outputs * weight[1] + c;
    for (std::int64_t kh = 0; kh < weight[2]; ++kh) {
      const std::int64_t h = oh * attrs.stride.h - attrs.padding.top + kh * attrs.dilation.h;
      for (std::int64_t kw = 0; kw < weight[3]; ++kw) {
        const std::int64_t w = ow * attrs.stride.w - attrs.padding.left + kw * attrs.dilation.w;
        if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
        use(((n * x[1] + channel) * x[2] + h) * x[3] + w,
            ((o * weight[1] + c) * weight[2] + kh) * weight[3] + kw,
            ((n * out[1] + o) * out[2] + oh) * out[3] + ow);
      }
    }
  }
}

}  // namespace

extern const RefKernel conv2d = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& weight = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const std::int64_t plane = out.shape[2] * out.shape[3];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out[i] = args.has(2) ? args.inputs[2][i / plane % out.shape[1]] : 0;
  }
  for_each_product(
      x.shape, weight.shape, out.shape, args.attrs<Conv2dAttrs>(),
      [&](std::int64_t i, std::int64_t k, std::int64_t o) { out[o] += x[i] * weight[k]; });
};

extern const RefKernel conv2d_grad_input = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& weight = args.inputs[1];
  const RefTensor& x = args.outputs[0];
  std::ranges::fill(x.values(), 0);
  for_each_product(
      x.shape, weight.shape, grad.shape, args.attrs<Conv2dGradAttrs>().conv,
      [&](std::int64_t i, std::int64_t k, std::int64_t o) { x[i] += grad[o] * weight[k]; });
};

extern const RefKernel conv2d_grad_weight = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  const RefTensor& weight = args.outputs[0];
  std::ranges::fill(weight.values(), 0);
  for_each_product(
      x.shape, weight.shape, grad.shape, args.attrs<Conv2dGradAttrs>().conv,
      [&](std::int64_t i, std::int64_t k, std::int64_t o) { weight[k] += grad[o] * x[i]; });
};

}  // namespace mezzo::kernels::ref
