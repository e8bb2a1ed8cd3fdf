// The attributes of scaled_cast and scaled_matmul, for their definitions and kernels.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

// Which elements of a matrix share a scale.
enum class ScaleBy : std::uint8_t {
  kTensor,  // all of them
  kLine,    // a row, or a column where the matrix is multiplied along its columns
  kBlock,   // 32 neighbours of a line, by a power of two: MXFP8
};

inline constexpr std::array kScaleBys{ScaleBy::kTensor, ScaleBy::kLine, ScaleBy::kBlock};

constexpr const char* name_of(ScaleBy by) {
  switch (by) {
    case ScaleBy::kTensor: return "tensor";
    case ScaleBy::kLine: return "line";
    case ScaleBy::kBlock: return "block";
  }
  return "";
}
inline void append_text(std::string& out, ScaleBy by) { out += name_of(by); }
inline bool parse_text(std::string_view text, ScaleBy& by) {
  return parse_one_of<ScaleBy>(text, by, kScaleBys);
}

// Elements that share a scale in MXFP8: OCP Microscaling Formats (MX) Specification 1.0, table 1.
inline constexpr std::int64_t kBlock = 32;

struct ScaledCastAttrs {
  DType dtype = DType::kE4m3;
  ScaleBy by = ScaleBy::kTensor;
  bool columns = false;  // lines and blocks lie along the columns
  static constexpr auto kFields =
      std::tuple(Field{"dtype", &ScaledCastAttrs::dtype}, Field{"by", &ScaledCastAttrs::by},
                 Field{"columns", &ScaledCastAttrs::columns});
  bool operator==(const ScaledCastAttrs&) const = default;
};

struct ScaledMatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  ScaleBy by = ScaleBy::kTensor;
  DType dtype = DType::kBf16;  // of the result
  static constexpr auto kFields =
      std::tuple(Field{"transpose_a", &ScaledMatmulAttrs::transpose_a},
                 Field{"transpose_b", &ScaledMatmulAttrs::transpose_b},
                 Field{"by", &ScaledMatmulAttrs::by}, Field{"dtype", &ScaledMatmulAttrs::dtype});
  bool operator==(const ScaledMatmulAttrs&) const = default;
};

}  // namespace mezzo
