#include "mezzo/nn/f16_range.h"

#include "mezzo/core/log.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::nn {

void warn_if_beyond_f16(std::string_view name, const Tensor& converted) {
  if (converted.dtype() != DType::kF16 || !converted.is_one_block()) return;
  if (all_finite({&converted, 1})) return;
  logging::warn_once(concat(
      "[f16] `", name,
      "` has values that are infinite in f16, whose largest is 65504. Keep it in f32 or bf16"));
}

}  // namespace mezzo::nn
