#include <gtest/gtest.h>

#include "mezzo/amp/policy.h"
#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

TEST(CommonSubexpressions, OneCastPerValueAndDType) {
  expect_pass(kCommonSubexpressions, R"(program(x: f32[2]) {
  %0: bf16[2] = cast(x) {dtype=bf16} @a
  %1: bf16[2] = relu(%0)
  %2: bf16[2] = cast(x) {dtype=bf16} @b #backward
  %3: f16[2] = cast(x) {dtype=f16}
  %4: bf16[2] = add(%1, %2)
  return %4, %3
}
)",
              1, R"(program(x: f32[2]) {
  %0: bf16[2] = cast(x) {dtype=bf16} @a
  %1: bf16[2] = relu(%0)
  %2: f16[2] = cast(x) {dtype=f16}
  %3: bf16[2] = add(%1, %0)
  return %3, %2
}
)");
}

// nn::recompute() says that the value must not be kept.
TEST(CommonSubexpressions, WhatTheBackwardPassComputesAgainStays) {
  const char* program = R"(program(x: f32[2]) {
  %0: f32[2] = exp(x)
  %1: bf16[2] = cast(%0) {dtype=bf16}
  %2: f32[2] = exp(x) #backward
  %3: bf16[2] = cast(%0) {dtype=bf16} #backward
  %4: bf16[2] = cast(%2) {dtype=bf16} #backward
  %5: bf16[2] = add(%1, %3) #backward
  %6: bf16[2] = add(%5, %4) #backward
  return %6
}
)";
  expect_pass(kCommonSubexpressions, program, 0, program);
}

TEST(CommonSubexpressions, ReadersOfWhatIsMergedMergeToo) {
  expect_pass(kCommonSubexpressions, R"(program(x: f32[2, 3]) {
  %0: f32[2, 3] = relu(x)
  %1: f32[2, 3] = relu(x)
  %2: f32[3, 2] strides=[1, 3] = permute(%0) {shape=[1, 0]}
  %3: f32[3, 2] strides=[1, 3] = permute(%1) {shape=[1, 0]}
  %4: f32[3, 2] = exp(%2)
  %5: f32[3, 2] = exp(%3)
  %6: f32[3, 2] = add(%4, %5)
  return %6
}
)",
              3, R"(program(x: f32[2, 3]) {
  %0: f32[2, 3] = relu(x)
  %1: f32[3, 2] strides=[1, 3] = permute(%0) {shape=[1, 0]}
  %2: f32[3, 2] = exp(%1)
  %3: f32[3, 2] = add(%2, %2)
  return %3
}
)");
}

TEST(CommonSubexpressions, EveryResultOfACallFindsItsTwin) {
  expect_pass(kCommonSubexpressions, R"(program(x: f32[4, 2, 3, 3], s: f32[2], b: f32[2]) {
  %0: f32[4, 2, 3, 3] channels_last, %1: f32[2], %2: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2, 3, 3] channels_last, %4: f32[2], %5: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=false eps=1e-05}
  %6: f32[4, 2, 3, 3] channels_last, %7: f32[2], %8: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=true eps=1e-05}
  %9: f32[2] = add(%4, %5)
  return %3, %9, %8
}
)",
              1, R"(program(x: f32[4, 2, 3, 3], s: f32[2], b: f32[2]) {
  %0: f32[4, 2, 3, 3] channels_last, %1: f32[2], %2: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2, 3, 3] channels_last, %4: f32[2], %5: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=true eps=1e-05}
  %6: f32[2] = add(%1, %2)
  return %0, %6, %5
}
)");
}

TEST(CommonSubexpressions, OtherInputsAttributesOrPoliciesAreOther) {
  expect_no_change(kCommonSubexpressions, R"(program(x: f32[2], y: f32[2]) {
  %0: f32[2] = affine(x) {scale=1 shift=0}
  %1: f32[2] = affine(x) {scale=1 shift=0.5}
  %2: f32[2] = affine(y) {scale=1 shift=0}
  %3: f32[2] = sub(x, y)
  %4: f32[2] = sub(y, x)
  %5: f32[2] = relu(x)
  %6: f32[2] = relu(x) [O2/bf16]
  %7: f32[2] = relu(x) [O1/bf16]
  %8: f32[2] = relu(x) in bf16
  %9: f32[2] = add(%0, %1)
  %10: f32[2] = add(%9, %2)
  %11: f32[2] = add(%10, %3)
  %12: f32[2] = add(%11, %4)
  %13: f32[2] = add(%12, %5)
  %14: f32[2] = add(%13, %6)
  %15: f32[2] = add(%14, %7)
  %16: f32[2] = add(%15, %8)
  return %16
}
)");
}

TEST(CommonSubexpressions, TheSamePolicyMayBeAnotherObject) {
  Program program = parse_program(R"(program(x: f32[2]) {
  %0: f32[2] = relu(x) [O2/bf16]
  %1: f32[2] = relu(x) [O2/bf16]
  %2: f32[2] = add(%0, %1)
  return %2
}
)");
  program.nodes[1].policy = std::make_shared<const amp::Policy>(*program.nodes[1].policy);
  EXPECT_EQ(common_subexpressions(program), 1U);
}

TEST(CommonSubexpressions, RandomNumbersAreDrawnAnew) {
  expect_no_change(kCommonSubexpressions, R"(program(x: f32[2]) {
  %0: f32[2] = dropout(x) {p=0.5 position=0@0 format=contiguous}
  %1: f32[2] = dropout(x) {p=0.5 position=0@0 format=contiguous}
  %2: f32[2] = add(%0, %1)
  return %2
}
)");
}

TEST(CommonSubexpressions, HostWorkIsDoneAsOftenAsAsked) {
  expect_no_change(kCommonSubexpressions, R"(program(x: f32[2]) {
  host track(x)
  host track(x)
  return
}
)");
}

TEST(CommonSubexpressions, StatesAreReadAnewAfterHostWork) {
  expect_pass(kCommonSubexpressions, R"(program(x: f32[2]) {
  state w: f32[2, 1]
  %0: f32[2] = reshape(w) {shape=[2]}
  %1: f32[2] = add(x, %0)
  %2: f32[2] = exp(x)
  %3: f32[2] = reshape(w) {shape=[2]}
  %4: f32[2] = add(x, %3)
  host update()
  %5: f32[2] = reshape(w) {shape=[2]}
  %6: f32[2] = add(x, %5)
  %7: f32[2] = exp(x)
  %8: f32[2] = add(%4, %6)
  %9: f32[2] = add(%2, %7)
  return %1, %8, %9
}
)",
              4, R"(program(x: f32[2]) {
  state w: f32[2, 1]
  %0: f32[2] = reshape(w) {shape=[2]}
  %1: f32[2] = add(x, %0)
  %2: f32[2] = exp(x)
  host update()
  %3: f32[2] = add(x, %0)
  %4: f32[2] = add(%1, %3)
  %5: f32[2] = add(%2, %2)
  return %1, %4, %5
}
)");
}

TEST(CommonSubexpressions, WhatHostWorkMayChangeIsNobodyElses) {
  // Unscaling one gradient must not unscale the other, nor both twice.
  expect_no_change(kCommonSubexpressions, R"(program(g: f32[2]) {
  %0: f32[2] = affine(g) {scale=2 shift=0}
  %1: f32[2] = affine(g) {scale=2 shift=0}
  host unscale(%0, %1)
  return
}
)");
  expect_no_change(kCommonSubexpressions, R"(program(g: f32[2, 1]) {
  %0: f32[2, 1] = affine(g) {scale=2 shift=0}
  %1: f32[2, 1] = affine(g) {scale=2 shift=0}
  %2: f32[2] = reshape(%0) {shape=[2]}
  host unscale(%2)
  return %1
}
)");
}

TEST(CommonSubexpressions, WhatIsReturnedTwiceStaysTwo) {
  expect_no_change(kCommonSubexpressions, R"(program(x: f32[2, 1]) {
  %0: f32[2, 1] = relu(x)
  %1: f32[2, 1] = relu(x)
  %2: f32[2] = reshape(%1) {shape=[2]}
  return %0, %2
}
)");
  expect_pass(kCommonSubexpressions, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = relu(x)
  %2: f32[2] = relu(x)
  %3: f32[2] = add(%0, %2)
  return %1, %2
}
)",
              1, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = relu(x)
  %2: f32[2] = add(%0, %1)
  return %0, %1
}
)");
}

// Covers the state itself and views of it.
TEST(CommonSubexpressions, AStateIsReadAnewAfterHostWork) {
  expect_no_change(kCommonSubexpressions, R"(program() {
  state w: f32[2]
  %0: f32[2] = exp(w)
  host update()
  %1: f32[2] = exp(w)
  %2: f32[2] = add(%0, %1)
  return %2
}
)");
  expect_no_change(kCommonSubexpressions, R"(program() {
  state w: f32[2, 1]
  %0: f32[2] = reshape(w) {shape=[2]}
  %1: f32[1, 2] = reshape(%0) {shape=[1, 2]}
  %2: f32[1, 2] = exp(%1)
  host update()
  %3: f32[1, 2] = exp(%1)
  %4: f32[1, 2] = add(%2, %3)
  return %4
}
)");
}

TEST(CommonSubexpressions, ResultsThatLieOtherwiseAreOther) {
  expect_no_change(kCommonSubexpressions,
                   R"(program(x: f32[1, 2, 3, 3], y: f32[1, 2, 3, 3] channels_last) {
  %0: f32[1, 2, 3, 3] channels_last = exp(y)
  %1: f32[1, 2, 3, 3] channels_last = add(x, y) over(%0)
  %2: f32[1, 2, 3, 3] = add(x, y)
  %3: f32[1, 2, 3, 3] channels_last = mul(%1, %2)
  return %3
}
)");
}

}  // namespace
}  // namespace mezzo::graph
