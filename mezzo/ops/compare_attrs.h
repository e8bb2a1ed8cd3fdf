// The attributes of comparisons, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

enum class Relation : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };

inline void append_text(std::string& out, Relation relation) {
  constexpr const char* kNames[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  out += kNames[static_cast<int>(relation)];
}
inline bool parse_text(std::string_view text, Relation& relation) {
  using enum Relation;
  return parse_one_of(text, relation, {kEq, kNe, kLt, kLe, kGt, kGe});
}

struct CompareAttrs {
  Relation relation = Relation::kEq;
  static constexpr auto kFields = std::tuple(Field{"relation", &CompareAttrs::relation});
  bool operator==(const CompareAttrs&) const = default;
};

struct CompareNumberAttrs {
  Relation relation = Relation::kEq;
  double number = 0;
  static constexpr auto kFields = std::tuple(Field{"relation", &CompareNumberAttrs::relation},
                                             Field{"number", &CompareNumberAttrs::number});
  bool operator==(const CompareNumberAttrs&) const = default;
};

// Whether the relation holds between two values, on every device.
template <class T>
constexpr bool holds(Relation relation, T a, T b) {
  switch (relation) {
    case Relation::kEq: return a == b;
    case Relation::kNe: return a != b;
    case Relation::kLt: return a < b;
    case Relation::kLe: return a <= b;
    case Relation::kGt: return a > b;
    case Relation::kGe: return a >= b;
  }
  return false;
}

}  // namespace mezzo
