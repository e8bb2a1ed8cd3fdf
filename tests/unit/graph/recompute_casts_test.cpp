#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

TEST(RecomputeCasts, WhatIsNeededInBackwardIsWidenedThere) {
  expect_pass(kRecomputeCasts, R"(program(x: bf16[64, 32]) {
  %0: bf16[64, 32] = relu(x)
  %1: f32[64, 32] = cast(%0) {dtype=f32} @bn
  %2: f32[64, 32] = sigmoid(%1)
  %3: bf16[64, 32] = cast(%2) {dtype=bf16}
  %4: bf16[64, 32] = relu(%3)
  %5: f32[64, 32] = cast(%4) {dtype=f32}
  %6: f32[64, 32] = exp(%5)
  %7: f32[64, 32] = mul(%6, %1) #backward
  return %7
}
)",
              1, R"(program(x: bf16[64, 32]) {
  %0: bf16[64, 32] = relu(x)
  %1: f32[64, 32] = cast(%0) {dtype=f32} @bn
  %2: f32[64, 32] = sigmoid(%1)
  %3: bf16[64, 32] = cast(%2) {dtype=bf16}
  %4: bf16[64, 32] = relu(%3)
  %5: f32[64, 32] = cast(%4) {dtype=f32}
  %6: f32[64, 32] = exp(%5)
  %7: f32[64, 32] = cast(%0) {dtype=f32} @bn #backward
  %8: f32[64, 32] = mul(%6, %7) #backward
  return %8
}
)");
}

// The cast rounds, or its input may have changed by then.
TEST(RecomputeCasts, NotWhatRoundsNorWhatHostWorkMayChange) {
  expect_no_change(kRecomputeCasts, R"(program(x: f32[64, 32]) {
  state w: bf16[64, 32]
  %0: bf16[64, 32] = cast(x) {dtype=bf16}
  %1: f32[64, 32] = cast(w) {dtype=f32}
  %2: bf16[64, 32] = sigmoid(%0)
  %3: f32[64, 32] = sigmoid(%1)
  %4: bf16[64, 32] = relu(%2)
  %5: f32[64, 32] = relu(%3)
  host change()
  %6: bf16[64, 32] = mul(%4, %0) #backward
  %7: f32[64, 32] = mul(%5, %1) #backward
  return %6, %7
}
)");
}

// %0 and the sigmoid's result need the same amount of memory.
TEST(RecomputeCasts, NotIfTheArenaStaysAsLarge) {
  expect_no_change(kRecomputeCasts, R"(program(x: bf16[64, 32]) {
  %0: bf16[64, 32] = relu(x)
  %1: f32[64, 32] = cast(%0) {dtype=f32}
  %2: f32[64, 32] = mul(%1, %1) #backward
  return %2
}
)");
}

}  // namespace
}  // namespace mezzo::graph
