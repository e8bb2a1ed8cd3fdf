#include "mezzo/kernels/cpu/conv2d_defects.h"

#include <algorithm>

#include "mezzo/core/cpu.h"

namespace mezzo::kernels::conv {
namespace {

bool is_bf16_on_tiles(const Problem& p) {
  return p.dtype == DType::kBf16 && cpu_features().amx_bf16;
}

bool is_larger_than_image(const Problem& p) { return p.weight[2] > p.x[2] || p.weight[3] > p.x[3]; }

// Windows that are smaller than the stride, larger than the image, or can lie in the padding as a
// whole, and now and then those of more than 3x3 pixels with more than 16 channels.
bool overruns_images(const Problem& p) {
  constexpr std::int64_t kFewChannels = 16;
  const Size2d stride = p.attrs.stride;
  const Sides& padding = p.attrs.padding;
  const std::int64_t h = p.weight[2];
  const std::int64_t w = p.weight[3];
  if (p.weight[1] > kFewChannels && std::max(h, w) > 3) return true;
  return h < stride.h || w < stride.w || is_larger_than_image(p) ||
         std::max(padding.top, padding.bottom) >= h || std::max(padding.left, padding.right) >= w;
}

Support is_trusted_weight_gradient(const Problem& p) {
  if (p.attrs.dilation != Size2d(1)) {
    // Sums over the wrong pixels, for channels that are no multiple of 16.
    return Support::no("oneDNN's dilated bf16 weight gradients are wrong with AMX");
  }
  if (p.attrs.groups > 1 && is_larger_than_image(p)) {
    // Taps that meet padding alone are not written.
    return Support::no("oneDNN's grouped bf16 weight gradients of small images are wrong with AMX");
  }
  return Support::yes();
}

}  // namespace

Support is_trusted(const Problem& p) {
  if (!is_bf16_on_tiles(p)) return Support::yes();
  if (p.pass == Pass::kGradWeight) return is_trusted_weight_gradient(p);
  if (needs_whole_images(p) && overruns_images(p)) {
    return Support::no("oneDNN's strided bf16 convolutions write past their images with AMX");
  }
  return Support::yes();
}

bool needs_whole_images(const Problem& p) {
  return p.pass == Pass::kForward && is_bf16_on_tiles(p) && p.attrs.stride != Size2d(1);
}

}  // namespace mezzo::kernels::conv
