#include "mezzo/kernels/cpu/conv/defects.h"

#include <algorithm>

#include "mezzo/core/cpu.h"
#include "mezzo/core/math.h"

namespace mezzo::kernels::conv {
namespace {

bool is_larger_than_image(const Problem& p) { return p.weight[2] > p.x[2] || p.weight[3] > p.x[3]; }

// oneDNN overruns images at windows that are smaller than the stride, larger than the image, or can
// lie in the padding as a whole. Now and then it also does with kernels larger than 3x3 and more
// than 16 channels. By dot products it also does at some strides above 3, if the image extends
// beyond the last window.
bool overruns_images(const Problem& p) {
  constexpr std::int64_t kFewChannels = 16;
  const Size2d stride = p.attrs.stride;
  const Sides& padding = p.attrs.padding;
  const std::int64_t h = p.weight[2];
  const std::int64_t w = p.weight[3];
  if (p.weight[1] > kFewChannels && std::max(h, w) > 3) return true;
  if (!cpu_features().amx_bf16 && std::max(stride.h, stride.w) > 3) return true;
  return h < stride.h || w < stride.w || is_larger_than_image(p) ||
         std::max(padding.top, padding.bottom) >= h || std::max(padding.left, padding.right) >= w;
}

// Whether a column of taps lies in the padding for every result.
bool has_dead_column(const Problem& p) {
  const std::int64_t stride = p.attrs.stride.w;
  for (std::int64_t tap = 0; tap < p.weight[3]; ++tap) {
    const std::int64_t outside = std::max<std::int64_t>(p.attrs.padding.left - tap, 0);
    // The first result that reads a pixel there.
    const std::int64_t first = ceil_div(outside, stride);
    const std::int64_t pixel = first * stride + tap - p.attrs.padding.left;
    if (first >= p.y[3] || pixel >= p.x[3]) return true;
  }
  return false;
}

Support is_trusted_weight_gradient(const Problem& p) {
  if (p.attrs.dilation != Size2d(1)) {
    // With AMX, the sums cover the wrong pixels if channels are not a multiple of 16. Without it,
    // rows of about 32 results and more now and then include what follows them in memory.
    return Support::no("oneDNN's dilated bf16 weight gradients are wrong");
  }
  if (has_dead_column(p)) {
    return Support::no(
        "oneDNN leaves weight gradients unwritten where a column meets only padding");
  }
  return Support::yes();
}

}  // namespace

Support is_trusted(const Problem& p) {
  if (p.dtype != DType::kBf16) return Support::yes();
  if (p.pass == Pass::kGradWeight) return is_trusted_weight_gradient(p);
  if (needs_whole_images(p) && overruns_images(p)) {
    return Support::no("oneDNN's strided bf16 convolutions write past their images");
  }
  return Support::yes();
}

bool needs_whole_images(const Problem& p) {
  return p.pass == Pass::kForward && p.dtype == DType::kBf16 && p.attrs.stride != Size2d(1);
}

}  // namespace mezzo::kernels::conv
