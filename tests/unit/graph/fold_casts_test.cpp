#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

TEST(FoldCasts, OutOf16BitsAndBackGoes) {
  expect_pass(kFoldCasts, R"(program(x: bf16[2, 3]) {
  %0: bf16[2, 3] = relu(x)
  %1: f32[2, 3] = cast(%0) {dtype=f32}
  %2: bf16[2, 3] = cast(%1) {dtype=bf16}
  %3: bf16[2, 3] = relu(%2)
  return %3
}
)",
              2, R"(program(x: bf16[2, 3]) {
  %0: bf16[2, 3] = relu(x)
  %1: bf16[2, 3] = relu(%0)
  return %1
}
)");
}

TEST(FoldCasts, OutOfF32AndBackRoundsAndStays) {
  expect_no_change(kFoldCasts, R"(program(x: f32[2]) {
  %0: f16[2] = cast(x) {dtype=f16}
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: f32[2] = relu(%1)
  return %2
}
)");
}

TEST(FoldCasts, IntoTheOther16BitsStays) {
  expect_no_change(kFoldCasts, R"(program(x: bf16[2]) {
  %0: f32[2] = cast(x) {dtype=f32}
  %1: f16[2] = cast(%0) {dtype=f16}
  %2: bf16[2] = cast(%1) {dtype=bf16}
  %3: bf16[2] = relu(%2)
  return %3
}
)");
  expect_no_change(kFoldCasts, R"(program(x: bf16[2]) {
  %0: f16[2] = cast(x) {dtype=f16}
  %1: bf16[2] = cast(%0) {dtype=bf16}
  %2: bf16[2] = relu(%1)
  return %2
}
)");
}

// Several f32 values map to one i64 value, and some i64 values have no exact f32 value.
TEST(FoldCasts, OverIntegersStays) {
  expect_no_change(kFoldCasts, R"(program(x: f32[2], i: i64[2]) {
  %0: i64[2] = cast(x) {dtype=i64}
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: f32[2] = cast(i) {dtype=f32}
  %3: i64[2] = cast(%2) {dtype=i64}
  %4: f32[2] = relu(%1)
  %5: i64[2] = add(%3, %3)
  return %4, %5
}
)");
}

TEST(FoldCasts, OverAWiderFloatGoes) {
  expect_pass(kFoldCasts, R"(program(x: f32[2]) {
  %0: f64[2] = cast(x) {dtype=f64}
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: f32[2] = relu(%1)
  return %2
}
)",
              2, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  return %0
}
)");
}

TEST(FoldCasts, TheWideCopyStaysForItsOtherReaders) {
  expect_pass(kFoldCasts, R"(program(x: f16[2]) {
  %0: f32[2] = cast(x) {dtype=f32}
  %1: f16[2] = cast(%0) {dtype=f16}
  %2: f16[2] = relu(%1)
  %3: f32[2] = exp(%0)
  return %2, %3
}
)",
              1, R"(program(x: f16[2]) {
  %0: f32[2] = cast(x) {dtype=f32}
  %1: f16[2] = relu(x)
  %2: f32[2] = exp(%0)
  return %1, %2
}
)");
  expect_pass(kFoldCasts, R"(program(x: f16[2]) {
  %0: f32[2] = cast(x) {dtype=f32}
  %1: f16[2] = cast(%0) {dtype=f16}
  %2: f16[2] = relu(%1)
  return %2, %0
}
)",
              1, R"(program(x: f16[2]) {
  %0: f32[2] = cast(x) {dtype=f32}
  %1: f16[2] = relu(x)
  return %1, %0
}
)");
}

TEST(FoldCasts, WhatWasToBeWrittenOverAndGoesIsForgotten) {
  expect_pass(kFoldCasts, R"(program(x: bf16[2]) {
  %0: bf16[2] = relu(x)
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: bf16[2] = cast(%1) {dtype=bf16}
  %3: f32[2] = cast(%2) {dtype=f32} over(%1)
  return %3
}
)",
              2, R"(program(x: bf16[2]) {
  %0: bf16[2] = relu(x)
  %1: f32[2] = cast(%0) {dtype=f32}
  return %1
}
)");
}

TEST(FoldCasts, ToTheSameDTypeGoes) {
  expect_pass(kFoldCasts, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: f32[2] = cast(%1) {dtype=f32}
  return %2
}
)",
              2, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  return %0
}
)");
}

TEST(FoldCasts, ThatMakesADenseBlockOfAViewStays) {
  expect_no_change(kFoldCasts, R"(program(x: bf16[2, 3]) {
  %0: bf16[3, 2] strides=[1, 3] = permute(x) {shape=[1, 0]}
  %1: bf16[3, 2] = cast(%0) {dtype=bf16}
  %2: f32[3, 2] = cast(%0) {dtype=f32}
  %3: bf16[3, 2] = cast(%2) {dtype=bf16}
  %4: bf16[6] = reshape(%3) {shape=[6]}
  %5: bf16[6] = reshape(%1) {shape=[6]}
  %6: bf16[6] = add(%4, %5)
  return %6
}
)");
}

TEST(FoldCasts, StridesOfSizesOneDoNotMatter) {
  expect_pass(kFoldCasts, R"(program(x: bf16[2, 3, 1, 1] channels_last) {
  %0: f32[2, 3, 1, 1] = cast(x) {dtype=f32}
  %1: bf16[2, 3, 1, 1] = cast(%0) {dtype=bf16}
  %2: bf16[2, 3, 1, 1] = relu(%1)
  return %2
}
)",
              2, R"(program(x: bf16[2, 3, 1, 1] channels_last) {
  %0: bf16[2, 3, 1, 1] = relu(x)
  return %0
}
)");
}

TEST(FoldCasts, OfAStateGoesUnlessHostWorkMayChangeIt) {
  expect_pass(kFoldCasts, R"(program() {
  state w: bf16[2]
  host first()
  %0: f32[2] = cast(w) {dtype=f32}
  %1: bf16[2] = cast(%0) {dtype=bf16}
  %2: bf16[2] = relu(%1)
  host update()
  return %2
}
)",
              2, R"(program() {
  state w: bf16[2]
  host first()
  %0: bf16[2] = relu(w)
  host update()
  return %0
}
)");
  // Here the readers see w before the change.
  expect_no_change(kFoldCasts, R"(program() {
  state w: bf16[2, 1]
  %0: bf16[2] = reshape(w) {shape=[2]}
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: bf16[2] = cast(%1) {dtype=bf16}
  host update()
  %3: bf16[2] = relu(%2)
  return %3
}
)");
  expect_no_change(kFoldCasts, R"(program() {
  state w: bf16[2]
  %0: f32[2] = cast(w) {dtype=f32}
  host update()
  %1: bf16[2] = cast(%0) {dtype=bf16}
  %2: bf16[2] = relu(%1)
  return %2
}
)");
}

TEST(FoldCasts, WhatIsReturnedIsNobodyElses) {
  expect_no_change(kFoldCasts, R"(program(x: bf16[2]) {
  state w: f32[2]
  %0: f32[2] = cast(x) {dtype=f32}
  %1: bf16[2] = cast(%0) {dtype=bf16}
  %2: f32[2] = cast(w) {dtype=f32}
  %3: bf16[2] = relu(x)
  %4: bf16[2] = cast(%3) {dtype=bf16}
  return %1, %2, %3, %4
}
)");
}

TEST(FoldCasts, WhatHostWorkMayChangeIsNobodyElses) {
  expect_no_change(kFoldCasts, R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = cast(%0) {dtype=f32}
  host unscale(%1)
  return %0
}
)");
  expect_no_change(kFoldCasts, R"(program(x: bf16[2]) {
  %0: bf16[2] = relu(x)
  %1: f32[2] = cast(%0) {dtype=f32}
  %2: bf16[2] = cast(%1) {dtype=bf16}
  host unscale(%0)
  return %2
}
)");
}

// A view of the cast's result is read after the state has changed.
TEST(FoldCasts, OfAStateStaysIfAViewIsReadAfterHostWork) {
  expect_no_change(kFoldCasts, R"(program() {
  state w: bf16[2, 1]
  %0: f32[2, 1] = cast(w) {dtype=f32}
  %1: bf16[2, 1] = cast(%0) {dtype=bf16}
  %2: bf16[2] = reshape(%1) {shape=[2]}
  host update()
  %3: bf16[2] = exp(%2)
  return %3
}
)");
}

}  // namespace
}  // namespace mezzo::graph
