// What graph mode computes again to save memory depends on how much a card has left.
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"
#include "mezzo/graph/passes/passes.h"
#include "tests/emulated_card/memory.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo {
namespace {

std::size_t norms_computed_again_with(std::size_t left) {
  backend_of(kCard).trim(kCard);  // what is cached would be left, too
  const std::size_t available = backend_of(kCard).available(kCard);
  emulated_card::set_used_by_others(available - left);
  graph::Program program = graph::parse_program(graph::kNormKeptForBackward);
  program.device = kCard;
  const std::size_t changes = graph::kRecomputeNorms.run(program);
  emulated_card::set_used_by_others(0);
  return changes;
}

TEST(Room, NormsAreComputedAgainOnlyWhereMemoryIsShort) {
  EXPECT_EQ(norms_computed_again_with(1 << 20), 0U);
  EXPECT_EQ(norms_computed_again_with(1 << 14), 1U);
}

TEST(Room, CachedBlocksAreAvailable) {
  const std::size_t before = backend_of(kCard).available(kCard);
  constexpr std::int64_t kBytes = 1 << 20;
  {
    const Tensor held = empty({kBytes / 4}, DType::kF32, Format::kContiguous, kCard);
    EXPECT_LE(backend_of(kCard).available(kCard) + kBytes, before);
  }
  EXPECT_EQ(backend_of(kCard).available(kCard), before);
}

}  // namespace
}  // namespace mezzo
