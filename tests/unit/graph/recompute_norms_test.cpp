#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

TEST(RecomputeNorms, WhatIsNeededInBackwardIsComputedThere) {
  expect_pass(kRecomputeNorms, kNormKeptForBackward, 1, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm(%0, _, _, _, _) {training=true relu=true eps=1e-05} @bn
  %4: f32[64, 32] = sigmoid(%1)
  %5: f32[64, 32] = relu(%4)
  %6: f32[64, 32] = mul(%4, %5)
  %7: f32[64, 32] = batch_norm(%0, _, _, %2, %3) {training=false relu=true eps=1e-05} @bn #backward
  %8: f32[64, 32] = mul(%6, %7) #backward
  %9: f32[64, 32] = mul(%8, %0) #backward
  return %9
}
)");
}

// Keeping x only for this would cost as much as y.
TEST(RecomputeNorms, NotIfItsInputIsNotKeptAnyway) {
  expect_no_change(kRecomputeNorms, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm(%0, _, _, _, _) {training=true relu=true eps=1e-05} @bn
  %4: f32[64, 32] = sigmoid(%1)
  %5: f32[64, 32] = relu(%4)
  %6: f32[64, 32] = mul(%4, %5)
  %7: f32[64, 32] = mul(%6, %1) #backward
  return %7
}
)");
}

TEST(RecomputeNorms, NotIfTheProgramReturnsItOrAViewReadsIt) {
  expect_no_change(kRecomputeNorms, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm(%0, _, _, _, _) {training=true relu=false eps=1e-05} @bn
  %4: f32[64, 32] = sigmoid(%1)
  %5: f32[64, 32] = relu(%4)
  %6: f32[64, 32] = mul(%4, %5)
  %7: f32[64, 32] = mul(%6, %1) #backward
  %8: f32[64, 32] = mul(%7, %0) #backward
  return %8, %1
}
)");
}

// Consecutive blocks, each of which adds the result of the one before. The second block's result
// stays, since it could only be recomputed from that of the first.
TEST(RecomputeNorms, EveryOtherOfResidualBlocksInARow) {
  expect_pass(kRecomputeNorms, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm_add_relu(%0, _, _, _, _, x) {training=true relu=true eps=1e-05} @first
  %4: f32[64, 32], %5: f32[32], %6: f32[32] = batch_norm_add_relu(%0, _, _, _, _, %1) {training=true relu=true eps=1e-05} @second
  %7: f32[64, 32] = sigmoid(%4)
  %8: f32[64, 32] = relu(%7)
  %9: f32[64, 32] = mul(%7, %8)
  %10: f32[64, 32] = mul(%9, %4) #backward
  %11: f32[64, 32] = mul(%10, %1) #backward
  %12: f32[64, 32] = mul(%11, %0) #backward
  %13: f32[64, 32] = mul(%12, x) #backward
  return %13
}
)",
              1, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm_add_relu(%0, _, _, _, _, x) {training=true relu=true eps=1e-05} @first
  %4: f32[64, 32], %5: f32[32], %6: f32[32] = batch_norm_add_relu(%0, _, _, _, _, %1) {training=true relu=true eps=1e-05} @second
  %7: f32[64, 32] = sigmoid(%4)
  %8: f32[64, 32] = relu(%7)
  %9: f32[64, 32] = mul(%7, %8)
  %10: f32[64, 32] = mul(%9, %4) #backward
  %11: f32[64, 32] = batch_norm_add_relu(%0, _, _, %2, %3, x) {training=false relu=true eps=1e-05} @first #backward
  %12: f32[64, 32] = mul(%10, %11) #backward
  %13: f32[64, 32] = mul(%12, %0) #backward
  %14: f32[64, 32] = mul(%13, x) #backward
  return %14
}
)");
}

// The residual is a value of the forward pass alone.
TEST(RecomputeNorms, NotIfItsResidualIsNotKeptAnyway) {
  expect_no_change(kRecomputeNorms, R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32] = sigmoid(x)
  %2: f32[64, 32], %3: f32[32], %4: f32[32] = batch_norm_add_relu(%0, _, _, _, _, %1) {training=true relu=true eps=1e-05} @bn
  %5: f32[64, 32] = sigmoid(%2)
  %6: f32[64, 32] = relu(%5)
  %7: f32[64, 32] = mul(%5, %6)
  %8: f32[64, 32] = mul(%7, %2) #backward
  %9: f32[64, 32] = mul(%8, %0) #backward
  return %9
}
)");
}

// A norm with given statistics has no others from which it could be recomputed.
TEST(RecomputeNorms, NotInInference) {
  expect_no_change(kRecomputeNorms, R"(program(x: f32[64, 32], mean: f32[32], var: f32[32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32] = batch_norm(%0, _, _, mean, var) {training=false relu=true eps=1e-05} @bn
  %2: f32[64, 32] = sigmoid(%1)
  %3: f32[64, 32] = relu(%2)
  %4: f32[64, 32] = mul(%2, %3)
  %5: f32[64, 32] = mul(%4, %1) #backward
  %6: f32[64, 32] = mul(%5, %0) #backward
  return %6
}
)");
}

}  // namespace
}  // namespace mezzo::graph
