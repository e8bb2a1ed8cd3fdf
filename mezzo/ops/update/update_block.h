// One parameter of an update as kernels see it: flat memory, and the numbers of a rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "mezzo/core/dtype.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/fusion/result_rows.h"
#include "mezzo/ops/update/packed_copy.h"
#include "mezzo/ops/update/param_update.h"

namespace mezzo::flat {

// What stands behind a block whose parameter has 16 bits. The block's own `param` is then the f32
// master copy if there is one, and its `grad` is not used.
struct HalfBlock {
  void* param = nullptr;  // null: the parameter is f32
  const void* grad = nullptr;
  void* compensation = nullptr;
  DType dtype = DType::kBf16;  // of param and compensation
  DType grad_dtype = DType::kF32;
  ParamUpdate rule = ParamUpdate::kMaster;
  RandomPosition random{};  // a whole number of blocks of four words into the stream
};

// The copies of an f32 parameter that the update renews.
struct CopyBlock {
  void* data = nullptr;  // of the plain one in 16 bits; null: there is none
  DType dtype = DType::kBf16;
  PackedCopies packed{};  // on CPUs
};

inline constexpr std::size_t kMostSlots = 3;

// State in fewer than 32 bits: see narrow_state.h.
struct NarrowState {
  DType dtype = DType::kF32;       // bf16 or e4m3; f32: the state is in UpdateBlock::slots
  unsigned squares = 0;            // UpdateRule::squares
  void* slots[kMostSlots] = {};    // in the place of UpdateBlock::slots
  float* scales[kMostSlots] = {};  // e4m3 only: one for each kStateBlock elements
  RandomPosition random{};
  std::int64_t words = 0;  // slot k is rounded from words * k words later on

  constexpr explicit operator bool() const { return dtype != DType::kF32; }
};

// State below this, f32's smallest normal number, becomes zero. Where no gradient comes any more,
// 0.9 of a number is taken again and again: that ends at subnormal numbers so small that they round
// to themselves, for ever, and CPUs take ten times as long for each of those. A parameter would
// move by a learning rate times this, which is nothing.
inline constexpr float kLeastState = std::numeric_limits<float>::min();

inline constexpr std::size_t kMostOwn = 2;
inline constexpr std::size_t kMostFactors = 8;

// The numbers of a rule: a struct of floats, of a type that the rule knows.
template <std::size_t kMost>
class RuleNumbers {
 public:
  RuleNumbers() = default;
  template <class Numbers>
  requires(!std::is_same_v<Numbers, RuleNumbers>) explicit RuleNumbers(const Numbers& numbers) {
    static_assert(std::is_trivially_copyable_v<Numbers> && sizeof(Numbers) <= sizeof(values_));
    if constexpr (!std::is_empty_v<Numbers>) std::memcpy(values_.data(), &numbers, sizeof(numbers));
  }

  const float* data() const { return values_.data(); }

 private:
  std::array<float, kMost> values_{};
};

struct UpdateBlock {
  float* param = nullptr;
  const float* grad = nullptr;
  float* slots[kMostSlots] = {};
  std::int64_t count = 0;
  RuleNumbers<kMostOwn> own{};
  HalfBlock half{};
  CopyBlock copy{};
  NarrowState state{};
  const ResultRows* rows = nullptr;  // of a gradient that is computed as it is used, on CPUs
};

struct UpdateFactors {
  RuleNumbers<kMostFactors> rule{};
  float inv_scale = 1;  // gradients are multiplied by this, which takes out a loss scale,
  float clip = 1;       // and then by this
};

}  // namespace mezzo::flat
