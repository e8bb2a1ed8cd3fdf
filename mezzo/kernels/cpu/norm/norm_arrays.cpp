#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/norm/norm_arrays.cpp"
#include "mezzo/kernels/cpu/norm/norm_arrays.h"

#include <algorithm>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/norm/normalized-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

void find_scale(std::int64_t count, float eps, const float* weight, const float* var, float* rstd,
                float* scale) {
  compute_scale(count, eps, weight, var, rstd, scale);
}

void normalize_bf16_rows(const kernels::NormLines& norm, const BFloat16* x, std::int64_t rows,
                         std::int64_t channels, BFloat16* y) {
  normalize_rows<BFloat16>(norm, x, rows, channels, y);
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {
namespace {

HWY_EXPORT(find_scale);
HWY_EXPORT(normalize_bf16_rows);

}  // namespace

NormArrays::NormArrays(const PendingNorm& norm)
    : channels_(norm.x.size(1)),
      length_(round_up(channels_, kBlock)),
      block_(empty({kArrays, length_}, DType::kF32)),
      relu_(norm.attrs.relu) {
  fill(kMean, norm.mean, 0);
  fill(kVar, norm.var, 1);
  fill(kWeight, norm.weight, 1);
  fill(kBias, norm.bias, 0);
  HWY_DYNAMIC_DISPATCH(find_scale)
  (channels_, static_cast<float>(norm.attrs.eps), array(kWeight), array(kVar), array(kRstd),
   array(kScale));
  std::fill(array(kScale) + channels_, array(kScale) + length_, 0.0F);
}

void NormArrays::fill(std::int64_t i, const Tensor& values, float otherwise) const {
  std::fill_n(array(i), length_, values.defined() ? 0.0F : otherwise);
  if (!values.defined()) return;
  const Tensor dense = kernels::dense(values, Format::kContiguous);
  std::copy_n(dense.data<float>(), dense.numel(), array(i));
}

void NormArrays::normalize(const BFloat16* x, std::int64_t rows, BFloat16* y) const {
  HWY_DYNAMIC_DISPATCH(normalize_bf16_rows)(lines(), x, rows, channels_, y);
}

}  // namespace mezzo::kernels
#endif
