// The attributes, inputs and results of lstm and gru, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct RecurrentAttrs {
  bool reverse = false;  // from the last step of each sequence to the first
  static constexpr auto kFields = std::tuple(Field{"reverse", &RecurrentAttrs::reverse});
  bool operator==(const RecurrentAttrs&) const = default;
};

// Gates in the order of PyTorch's weights.
inline constexpr std::int64_t kLstmGates = 4;  // i, f, g, o
inline constexpr std::int64_t kGruGates = 3;   // r, z, n
// What a step of gru keeps: r, z, n, and the product with the state that enters n.
inline constexpr std::int64_t kGruKept = 4;

struct LstmInput {
  enum : std::size_t { kGates, kWeight, kBias, kHidden, kCell, kLengths };
};
struct LstmOutput {
  enum : std::size_t { kSequence, kFinal, kActivated, kCells };
};
struct LstmGradInput {
  enum : std::size_t {
    kWeight,
    kSequence,
    kActivated,
    kCells,
    kGradSequence,
    kGradFinal,
    kGradActivated,
    kGradCells,
    kHidden,
    kCell,
    kLengths
  };
};
struct LstmGradOutput {
  enum : std::size_t { kGates, kInitial, kPrevious };
};

struct GruInput {
  enum : std::size_t { kGates, kWeight, kBias, kHidden, kLengths };
};
struct GruOutput {
  enum : std::size_t { kSequence, kFinal, kActivated };
};
struct GruGradInput {
  enum : std::size_t {
    kWeight,
    kSequence,
    kActivated,
    kGradSequence,
    kGradFinal,
    kGradActivated,
    kHidden,
    kLengths
  };
};
struct GruGradOutput {
  enum : std::size_t { kGates, kSums, kInitial, kPrevious };
};

}  // namespace mezzo
