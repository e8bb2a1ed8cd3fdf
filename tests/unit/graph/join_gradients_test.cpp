#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/models/model.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

TEST(JoinGradients, TheNormsGradientReadsBothTerms) {
  expect_pass(
      kJoinGradients,
      R"(program(g: bf16[4, 2], h: bf16[4, 2], x: bf16[4, 2], m: f32[2], v: f32[2], y: bf16[4, 2]) {
  %0: bf16[4, 2] = relu_grad(g, y)
  %1: bf16[4, 2] = add(%0, h) over(%0)
  %2: bf16[4, 2], %3: f32[2], %4: f32[2], %5: bf16[4, 2] = batch_norm_grad(%1, x, _, _, m, v, y) {training=true relu=true eps=1e-05} over(_, _, _, %1)
  return %2, %5
}
)",
      1,
      R"(program(g: bf16[4, 2], h: bf16[4, 2], x: bf16[4, 2], m: f32[2], v: f32[2], y: bf16[4, 2]) {
  %0: bf16[4, 2] = relu_grad(g, y)
  %1: bf16[4, 2], %2: f32[2], %3: f32[2], %4: bf16[4, 2] = batch_norm_grad(%0, x, _, _, m, v, y, h) {training=true relu=true eps=1e-05} over(_, _, _, %0)
  return %1, %4
}
)");
}

TEST(JoinGradients, LeavesSumsThatOthersReadOrThatBroadcast) {
  expect_no_change(
      kJoinGradients,
      R"(program(g: f32[4, 2], h: f32[4, 2], x: f32[4, 2], m: f32[2], v: f32[2], y: f32[4, 2]) {
  %0: f32[4, 2] = add(g, h)
  %1: f32[4, 2], %2: f32[2], %3: f32[2], %4: f32[4, 2] = batch_norm_grad(%0, x, _, _, m, v, y) {training=true relu=true eps=1e-05}
  return %0, %1
}
)");
  expect_no_change(
      kJoinGradients,
      R"(program(g: f32[4, 2], h: f32[2], x: f32[4, 2], m: f32[2], v: f32[2], y: f32[4, 2]) {
  %0: f32[4, 2] = add(g, h)
  %1: f32[4, 2], %2: f32[2], %3: f32[2], %4: f32[4, 2] = batch_norm_grad(%0, x, _, _, m, v, y) {training=true relu=true eps=1e-05}
  return %1
}
)");
}

TEST(JoinGradients, LeavesTermsThatHostWorkMayChange) {
  expect_no_change(
      kJoinGradients,
      R"(program(g: f32[4, 2], h: f32[4, 2], x: f32[4, 2], m: f32[2], v: f32[2], y: f32[4, 2]) {
  %0: f32[4, 2] = add(g, h)
  host scale(h)
  %1: f32[4, 2], %2: f32[2], %3: f32[2], %4: f32[4, 2] = batch_norm_grad(%0, x, _, _, m, v, y) {training=true relu=true eps=1e-05}
  return %1
}
)");
}

TEST(JoinGradients, LeavesNormsThatReadTwoAlready) {
  expect_no_change(
      kJoinGradients,
      R"(program(g: f32[4, 2], h: f32[4, 2], x: f32[4, 2], m: f32[2], v: f32[2], y: f32[4, 2]) {
  %0: f32[4, 2] = add(g, h)
  %1: f32[4, 2], %2: f32[2], %3: f32[2], %4: f32[4, 2] = batch_norm_grad(%0, x, _, _, m, v, y, x) {training=true relu=true eps=1e-05}
  return %1
}
)");
}

// Without y the kernel has no result in which to accumulate the sum.
TEST(JoinGradients, LeavesNormsWithoutAResidual) {
  expect_no_change(kJoinGradients,
                   R"(program(g: f32[4, 2], h: f32[4, 2], x: f32[4, 2], m: f32[2], v: f32[2]) {
  %0: f32[4, 2] = add(g, h)
  %1: f32[4, 2], %2: f32[2], %3: f32[2] = batch_norm_grad(%0, x, _, _, m, v) {training=true relu=true eps=1e-05}
  return %1
}
)");
}

// The blocks of a residual network: each block's result except the last one's has two readers.
TEST(JoinGradients, AResidualNetworkKeepsItsBitsAtEveryLevel) {
  for (const auto& [level, dtype] : {std::pair{"O0", DType::kBf16}, std::pair{"O2", DType::kBf16},
                                     std::pair{"O2", DType::kF16}}) {
    const auto make = [] { return models::create("resnet20", {3, 10, 16}); };
    Twins<nn::Module> twins(make, optim::SgdOptions{.lr = 0.1, .momentum = 0.9},
                            {.level = level, .dtype = dtype});
    Generator images(4);
    for (int i = 0; i < 3; ++i) {
      twins.step({randn({4, 3, 16, 16}, images), from_values<std::int64_t>({1, 2, 3, 4}, {4})});
    }
    twins.expect_same_state();
  }
}

}  // namespace
}  // namespace mezzo::graph
