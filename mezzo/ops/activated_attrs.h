// The attributes of products followed by an activation, for their definitions and kernels.
#pragma once

#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/matmul_attrs.h"
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

// For products that have attributes themselves.
template <class Product>
struct ActivationAttrs {
  Product product{};
  Activation activation = Activation::kRelu;
  static constexpr auto kFields = std::tuple(Field{"product", &ActivationAttrs::product},
                                             Field{"activation", &ActivationAttrs::activation});
  bool operator==(const ActivationAttrs&) const = default;
};
using Conv2dActivationAttrs = ActivationAttrs<Conv2dAttrs>;
using MatmulActivationAttrs = ActivationAttrs<MatmulAttrs>;

}  // namespace mezzo
