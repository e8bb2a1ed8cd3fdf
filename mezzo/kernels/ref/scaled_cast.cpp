#include <algorithm>
#include <cmath>

#include "mezzo/core/float8.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo::kernels::ref {
namespace {

double code_value(double x, float factor, DType dtype) {
  // The product is rounded to f32 first, as on every device: the codes are part of the definition.
  const float product = static_cast<float>(x) * factor;
  return dtype == DType::kE4m3 ? static_cast<float>(Float8E4M3::saturated(product))
                               : static_cast<float>(Float8E5M2::saturated(product));
}

float largest_of(float before, double x) {
  const float magnitude = std::abs(static_cast<float>(x));
  return std::isnan(magnitude) || magnitude > before ? magnitude : before;
}

// A group of elements that share a scale: `count` from `begin` on, `step` apart.
struct Group {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
};

float amax_of(const RefTensor& x, const Group& group) {
  float amax = 0;
  for (std::int64_t i = 0; i < group.count && !std::isnan(amax); ++i) {
    amax = largest_of(amax, x[group.begin + i * group.step]);
  }
  return amax;
}

void round_group(const RefArgs& args, const Group& group, float factor) {
  const DType dtype = args.attrs<ScaledCastAttrs>().dtype;
  for (std::int64_t i = 0; i < group.count; ++i) {
    const std::int64_t at = group.begin + i * group.step;
    args.outputs[0][at] = code_value(args.inputs[0][at], factor, dtype);
  }
}

void cast_tensor(const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const Group all{0, x.numel(), 1};
  const float amax = amax_of(x, all);
  const auto largest = static_cast<float>(max_of(args.attrs<ScaledCastAttrs>().dtype));
  const float factor =
      args.has(1) ? static_cast<float>(args.inputs[1][0]) : scale_for(amax, largest, 1);
  round_group(args, all, factor);
  args.outputs[1][0] = 1 / factor;
  args.outputs[2][0] = amax;
}

void cast_group(const RefArgs& args, const Group& group, std::int64_t number) {
  const auto& attrs = args.attrs<ScaledCastAttrs>();
  const float amax = amax_of(args.inputs[0], group);
  if (attrs.by == ScaleBy::kLine) {
    const float factor = scale_for(amax, static_cast<float>(max_of(attrs.dtype)), 1);
    round_group(args, group, factor);
    args.outputs[1][number] = 1 / factor;
  } else {
    const std::uint8_t code = block_code(amax, attrs.dtype);
    round_group(args, group, block_factor(code));
    args.outputs[1][number] = code;
  }
}

void cast_groups(const RefArgs& args) {
  const auto& attrs = args.attrs<ScaledCastAttrs>();
  const Shape& shape = args.inputs[0].shape;
  const std::int64_t lines = shape[attrs.columns ? 1 : 0];
  const std::int64_t length = shape[attrs.columns ? 0 : 1];
  const std::int64_t step = attrs.columns ? shape[1] : 1;
  const std::int64_t size = attrs.by == ScaleBy::kLine ? std::max<std::int64_t>(length, 1) : kBlock;
  const std::int64_t blocks = (length + size - 1) / size;
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t begin = attrs.columns ? line : line * length;
    if (length == 0 && attrs.by == ScaleBy::kLine) args.outputs[1][line] = 1;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Group group{begin + b * size * step, std::min(size, length - b * size), step};
      cast_group(args, group, attrs.columns ? b * lines + line : line * blocks + b);
    }
  }
}

}  // namespace

extern const RefKernel scaled_cast = [](const RefArgs& args) {
  args.attrs<ScaledCastAttrs>().by == ScaleBy::kTensor ? cast_tensor(args) : cast_groups(args);
};

}  // namespace mezzo::kernels::ref
