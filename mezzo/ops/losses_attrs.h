// The attributes of losses, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/losses.h"

namespace mezzo {

inline void append_text(std::string& out, Reduction reduction) {
  constexpr const char* kNames[] = {"mean", "sum", "none"};
  out += kNames[static_cast<int>(reduction)];
}
inline bool parse_text(std::string_view text, Reduction& reduction) {
  return parse_one_of(text, reduction, {Reduction::kMean, Reduction::kSum, Reduction::kNone});
}

struct CrossEntropyAttrs {
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
  static constexpr auto kFields =
      std::tuple(Field{"label_smoothing", &CrossEntropyAttrs::label_smoothing},
                 Field{"reduction", &CrossEntropyAttrs::reduction});
  bool operator==(const CrossEntropyAttrs&) const = default;
};

struct MseAttrs {
  Reduction reduction = Reduction::kMean;
  static constexpr auto kFields = std::tuple(Field{"reduction", &MseAttrs::reduction});
  bool operator==(const MseAttrs&) const = default;
};

// The factor of the sum of `count` losses.
inline double loss_scale(Reduction reduction, std::int64_t count) {
  return reduction == Reduction::kMean ? 1.0 / static_cast<double>(count) : 1.0;
}

// Throws ArgumentError unless 0 <= label < classes; `at` is the label's position.
template <class Label>
std::int64_t checked_label(Label label, std::int64_t at, std::int64_t classes,
                           std::string_view op) {
  const auto value = static_cast<std::int64_t>(label);
  check_arg(value >= 0 && value < classes, op, "label ", at, " is ", value, ", out of range for ",
            classes, " classes. Labels count from 0; those that do not count are ignore_index");
  return value;
}

}  // namespace mezzo
