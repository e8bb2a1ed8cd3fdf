// The scales of numbers of eight bits: one place for the formulas, for kernels of every device.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "mezzo/core/dtype.h"

namespace mezzo {

// What elements are multiplied by before they are rounded to `dtype`, so that the largest absolute
// value, `amax`, becomes the largest number of the dtype. `before` if amax is 0, infinite or NaN,
// which say nothing about a scale; the largest f32 number if the quotient is beyond it. This is
// TransformerEngine's formula.
constexpr float scale_for(float amax, float largest, float before) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(amax > 0) || amax > kMost) return before;
  const float scale = largest / amax;
  return scale > kMost ? kMost : scale;
}

// The scale of an MXFP8 block: elements are multiplied by 2^(127 - code) before they are rounded,
// and the rounded ones by 2^(code - 127). `code` is a number of the format e8m0, whose 255 is NaN.
//
// The code is the smallest for which no element saturates: 2^(code - 127) >= amax / largest. The
// OCP's specification rounds this quotient down to a power of two, which makes up to an eighth of
// the largest elements saturate; rounding up trains as well as bf16 (Mishra et al. 2025, "Recipes
// for pre-training LLMs with MXFP8"). Both dtypes have a largest number of 1.75 * 2^e, so the
// quotient need not be computed: it could be rounded.
constexpr std::uint8_t block_code(float amax, DType dtype) {
  const auto u = std::bit_cast<std::uint32_t>(amax);
  if (u >= 0x7f800000U) return 255;
  const std::int32_t top = dtype == DType::kE4m3 ? 8 : 15;
  const std::int32_t up = (u & 0x7fffffU) > 0x600000U ? 1 : 0;
  const std::int32_t code = static_cast<std::int32_t>(u >> 23) - top + up;
  return static_cast<std::uint8_t>(code < 0 ? 0 : code);
}

// 2^(code - 127), or NaN.
constexpr float block_scale(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127F;
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

// 2^(127 - code), or NaN.
constexpr float block_factor(std::uint8_t code) {
  return code == 255 ? std::numeric_limits<float>::quiet_NaN()
                     : block_scale(static_cast<std::uint8_t>(254 - code));
}

}  // namespace mezzo
