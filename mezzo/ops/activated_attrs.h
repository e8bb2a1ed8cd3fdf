// The attributes of products with an activation behind them, for their definitions and kernels.
#pragma once

#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/pointwise_attrs.h"

namespace mezzo {

enum class Activation : std::uint8_t { kRelu, kGelu, kGeluTanh };

inline void append_text(std::string& out, Activation activation) {
  constexpr const char* kNames[] = {"relu", "gelu", "gelu_tanh"};
  out += kNames[static_cast<int>(activation)];
}
inline bool parse_text(std::string_view text, Activation& activation) {
  return parse_one_of(text, activation,
                      {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh});
}

struct LinearActivationAttrs {
  Activation activation = Activation::kRelu;
  static constexpr auto kFields =
      std::tuple(Field{"activation", &LinearActivationAttrs::activation});
  bool operator==(const LinearActivationAttrs&) const = default;
};

struct Conv2dActivationAttrs {
  Conv2dAttrs conv{};
  Activation activation = Activation::kRelu;
  static constexpr auto kFields =
      std::tuple(Field{"conv", &Conv2dActivationAttrs::conv},
                 Field{"activation", &Conv2dActivationAttrs::activation});
  bool operator==(const Conv2dActivationAttrs&) const = default;
};

}  // namespace mezzo
