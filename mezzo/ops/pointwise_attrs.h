// The attributes of element-wise functions of one tensor, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo {

inline void append_text(std::string& out, GeluForm form) {
  out += form == GeluForm::kExact ? "exact" : "tanh";
}
inline bool parse_text(std::string_view text, GeluForm& form) {
  return parse_one_of(text, form, {GeluForm::kExact, GeluForm::kTanh});
}

struct PowAttrs {
  double exponent = 1;
  static constexpr auto kFields = std::tuple(Field{"exponent", &PowAttrs::exponent});
  bool operator==(const PowAttrs&) const = default;
};

struct GeluAttrs {
  GeluForm form = GeluForm::kExact;
  static constexpr auto kFields = std::tuple(Field{"form", &GeluAttrs::form});
  bool operator==(const GeluAttrs&) const = default;
};

// The constants of gelu's tanh form: tanh(kGeluScale * (x + kGeluCubic * x^3)).
inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

}  // namespace mezzo
