#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/winograd/winograd_weight.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_weight-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::winograd::RoundedWeight;

void transform_weight(const Convolution& convolution, const RoundedWeight& weight, float* out) {
  if constexpr (kRunsAvx2Kernels) {
    const kernels::winograd::Blocks layout = convolution.weight();
    const std::int64_t panels = ceil_div(convolution.in, kPanel);
    const std::int64_t count = layout.blocks * panels;
    kernels::visit_vector_dtype(weight.numbers.dtype(), [&]<class T>() {
      parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
        KernelBlock<T> block(convolution, weight);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t first_in = i % panels * kPanel;
          block.transform_to(first_in, i / panels * kColumns, layout.point(),
                             out + i / panels * layout.block() + first_in * kColumns);
        }
      });
    });
  } else {
    kernels::fail_without_avx2();
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::winograd {

HWY_EXPORT(transform_weight);

void transform_weight(const Convolution& convolution, const RoundedWeight& weight, float* out) {
  HWY_DYNAMIC_DISPATCH(transform_weight)(convolution, weight, out);
}

}  // namespace mezzo::kernels::winograd
#endif
