#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

// The result of the norm is read by the next operation and by its gradient.
constexpr const char* kKept = R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm(%0, _, _, _, _) {training=true relu=true eps=1e-05} @bn
  %4: f32[64, 32] = sigmoid(%1)
  %5: f32[64, 32] = relu(%4)
  %6: f32[64, 32] = mul(%4, %5)
  %7: f32[64, 32] = mul(%6, %1) #backward
  %8: f32[64, 32] = mul(%7, %0) #backward
  return %8
}
)";

TEST(RecomputeNorms, WhatIsNeededInBackwardIsComputedThere) {
  expect_pass(kRecomputeNorms, kKept, 1, R"(program(x: f32[64, 32]) {
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

// Keeping x for this alone would cost as much as y.
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

// A norm by given statistics has no others to be computed again by.
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
