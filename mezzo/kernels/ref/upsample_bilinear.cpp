#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// The position of pixel i of `out` along an axis of `in` pixels, whose centres are integers.
double place_of(std::int64_t i, std::int64_t in, std::int64_t out, bool align_corners) {
  const auto pixels = static_cast<double>(in);
  const auto results = static_cast<double>(out);
  const auto at = static_cast<double>(i);
  if (align_corners) return out > 1 ? at * (pixels - 1) / (results - 1) : 0;
  // (at + 1/2) * pixels / results - 1/2, rounded only once.
  const double place = ((2 * at + 1) * pixels - results) / (2 * results);
  return std::clamp(place, 0.0, pixels - 1);
}

// Calls use(image pixel, result pixel, weight) for every pixel of results [n, c, ...] and the image
// pixels that it is computed from.
template <class Use>
void for_each_weight(const Shape& images, const UpsampleBilinearAttrs& attrs, Use use) {
  const std::int64_t height = images[2];
  const std::int64_t width = images[3];
  const auto [oh, ow] = attrs.size;
  for (std::int64_t i = 0; i < images[0] * images[1] * oh * ow; ++i) {
    const double y = place_of(i / ow % oh, height, oh, attrs.align_corners);
    const double x = place_of(i % ow, width, ow, attrs.align_corners);
    for (const double h : {std::floor(y), std::floor(y) + 1}) {
      for (const double w : {std::floor(x), std::floor(x) + 1}) {
        const double weight = (1 - std::abs(y - h)) * (1 - std::abs(x - w));
        if (weight == 0) continue;  // and perhaps outside
        const std::int64_t row = i / (oh * ow) * height + static_cast<std::int64_t>(h);
        use(row * width + static_cast<std::int64_t>(w), i, weight);
      }
    }
  }
}

}  // namespace

extern const RefKernel upsample_bilinear2d = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  std::fill_n(out.data, out.numel(), 0.0);
  for_each_weight(args.inputs[0].shape, args.attrs<UpsampleBilinearAttrs>(),
                  [&](std::int64_t pixel, std::int64_t result, double weight) {
                    out[result] += weight * args.inputs[0][pixel];
                  });
};

extern const RefKernel upsample_bilinear2d_grad = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  std::fill_n(out.data, out.numel(), 0.0);
  for_each_weight(out.shape, args.attrs<UpsampleBilinearAttrs>(),
                  [&](std::int64_t pixel, std::int64_t result, double weight) {
                    out[pixel] += weight * args.inputs[0][result];
                  });
};

}  // namespace mezzo::kernels::ref
