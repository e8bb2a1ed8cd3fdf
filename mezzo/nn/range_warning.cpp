#include "mezzo/nn/range_warning.h"

#include "mezzo/core/log.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::nn {

void warn_if_beyond_range(std::string_view name, const Tensor& converted) {
  const DType dtype = converted.dtype();
  if (!is_lower(dtype) || !has_narrow_range(dtype) || !converted.is_one_block()) return;
  if (all_finite({&converted, 1})) return;
  logging::warn_once(concat("[", dtype, "] `", name, "` has values that are infinite in ", dtype,
                            ", whose largest is ", max_of(dtype), ". Keep it in f32 or bf16"));
}

}  // namespace mezzo::nn
