// Update rules as the host knows them: how an optimizer names the rule of its step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "mezzo/ops/update/update_block.h"

namespace mezzo {

using SlotNames = std::array<const char*, flat::kMostSlots>;

// A run of elements of one parameter, for a rule that is a function: all in f32, whatever the
// parameter is stored in.
struct RulePiece {
  std::span<float> param;
  std::span<const float> grad;  // as long; the loss scale is taken out, and it is clipped
  std::array<float*, flat::kMostSlots> slots{};  // as long; null beyond the rule's
  const float* own = nullptr;                    // the parameter's own numbers
  const float* factors = nullptr;                // those of all parameters
};

// What an update does to each number of a parameter. Made by rule_of() for the library's rules; one
// of a program's own has a function, which runs on the CPU's threads at once, for different pieces.
struct UpdateRule {
  static constexpr std::size_t kIsFunction = ~std::size_t{0};

  const char* name = "";  // of the operation, in messages and profiles
  std::size_t slots =
      0;  // f32 numbers of state for each number of a parameter, at most flat::kMostSlots
  SlotNames slot_names{};
  // Bit k: slot k is a mean of squares, of which narrow state keeps the root (narrow_state.h).
  unsigned squares = 0;
  void (*function)(const RulePiece& piece) = nullptr;
  std::size_t index = kIsFunction;  // in rules::Rules
};

namespace rules {

template <class... Rule>
struct RuleList {
  static constexpr std::size_t kCount = sizeof...(Rule);
  template <class Wanted>
  static constexpr std::size_t index_of() {
    std::size_t index = 0;
    static_cast<void>(((std::is_same_v<Rule, Wanted> || (++index, false)) || ...));
    return index;
  }
};

// The host only names rules and makes their numbers. What apply() calls is found where a kernel
// compiles it.
using flat::kLeastState;
#define MEZZO_RULE_FUNCTION inline
#include "mezzo/ops/update/rules/list-inl.h"
#undef MEZZO_RULE_FUNCTION

}  // namespace rules

template <class Rule>
inline constexpr UpdateRule kRuleOf{.name = Rule::kName,
                                    .slots = Rule::kSlots,
                                    .slot_names = Rule::kSlotNames,
                                    .squares = Rule::kSquares,
                                    .index = rules::Rules::index_of<Rule>()};

}  // namespace mezzo
