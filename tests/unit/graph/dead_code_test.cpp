#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

TEST(DeadCode, GoesWithAllThatOnlyItReads) {
  expect_pass(kDeadCode, R"(program(x: f32[2], y: f32[2]) {
  state w: f32[2]
  %0: f32[2] = relu(x)
  %1: f32[2] = exp(x)
  %2: f32[2] = add(%1, w)
  %3: f32[2] = add(%2, %0) #backward
  return %0
}
)",
              3, R"(program(x: f32[2], y: f32[2]) {
  state w: f32[2]
  %0: f32[2] = relu(x)
  return %0
}
)");
}

TEST(DeadCode, IsNotWhatHostWorkReads) {
  expect_no_change(kDeadCode, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = exp(%0)
  host first(_, %1) #update
  host second() #update
  return
}
)");
}

TEST(DeadCode, IsNotACallOfWhichOneResultIsRead) {
  expect_no_change(kDeadCode, R"(program(x: f32[4, 2], s: f32[2], b: f32[2]) {
  %0: f32[4, 2], %1: f32[4], %2: f32[4] = layer_norm(x, s, b) {axes=1 eps=1e-05}
  return %2
}
)");
}

TEST(DeadCode, IsNothingToWriteOver) {
  expect_pass(kDeadCode, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = exp(x) over(%0)
  return %1
}
)",
              1, R"(program(x: f32[2]) {
  %0: f32[2] = exp(x)
  return %0
}
)");
}

TEST(DeadCode, IsNotWhatDecidesALayout) {
  expect_no_change(kDeadCode, R"(program(x: f32[1, 2, 2, 2]) {
  %0: f32[1, 2, 2, 2] channels_last = to_format(x) {format=channels_last}
  %1: f32[1, 2, 2, 2] channels_last = cast(x) {dtype=f32} over(%0)
  return %1
}
)");
}

}  // namespace
}  // namespace mezzo::graph
