#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls use(small, large) for every pixel of `large` and the pixel of `small` that it repeats.
template <class Use>
void for_each_repetition(const Shape& large, Size2d scale, Use use) {
  const std::int64_t width = large[3] / scale.w;
  for (std::int64_t i = 0; i < large.numel(); ++i) {
    const std::int64_t row = i / large[3];  // row over all images; each image has whole repetitions
    use(row / scale.h * width + i % large[3] / scale.w, i);
  }
}

}  // namespace

extern const RefKernel upsample_nearest2d = [](const RefArgs& args) {
  for_each_repetition(args.outputs[0].shape, args.attrs<UpsampleAttrs>().scale,
                      [&](std::int64_t small, std::int64_t large) {
                        args.outputs[0][large] = args.inputs[0][small];
                      });
};

extern const RefKernel upsample_nearest2d_grad = [](const RefArgs& args) {
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) args.outputs[0][i] = 0;
  for_each_repetition(args.inputs[0].shape, args.attrs<UpsampleAttrs>().scale,
                      [&](std::int64_t small, std::int64_t large) {
                        args.outputs[0][small] += args.inputs[0][large];
                      });
};

}  // namespace mezzo::kernels::ref
