#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/plain_training.h"

namespace mezzo::graph {
namespace {

TEST(FuseNorm, TakesTheReluIn) {
  expect_pass(kFuseNorm, R"(program(x: f32[4, 2], s: f32[2], b: f32[2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=false eps=1e-05} @block.bn
  host track(%1, %2)
  %3: f32[4, 2] = relu(%0) @block
  return %3
}
)",
              1, R"(program(x: f32[4, 2], s: f32[2], b: f32[2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, s, b, _, _) {training=true relu=true eps=1e-05} @block
  host track(%1, %2)
  return %0
}
)");
}

TEST(FuseNorm, TakesTheSumInFromEitherSide) {
  expect_pass(kFuseNorm, R"(program(x: bf16[4, 2], r: bf16[4, 2], m: f32[2], v: f32[2]) {
  %0: bf16[4, 2] = batch_norm(x, _, _, m, v) {training=false relu=false eps=1e-05}
  %1: bf16[4, 2] = add(%0, r)
  %2: bf16[4, 2] = relu(%1)
  %3: bf16[4, 2] = batch_norm(%2, _, _, m, v) {training=false relu=false eps=1e-05}
  %4: bf16[4, 2] = add(%2, %3) over(%3)
  %5: bf16[4, 2] = relu(%4)
  return %5
}
)",
              2, R"(program(x: bf16[4, 2], r: bf16[4, 2], m: f32[2], v: f32[2]) {
  %0: bf16[4, 2] = batch_norm_add_relu(x, _, _, m, v, r) {training=false relu=true eps=1e-05}
  %1: bf16[4, 2] = batch_norm_add_relu(%0, _, _, m, v, %0) {training=false relu=true eps=1e-05}
  return %1
}
)");
}

// If both summands are norms, the later one takes the sum, since the other result then exists.
TEST(FuseNorm, TheResidualIsThereWhenTheNormRuns) {
  expect_pass(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  host track(%1, %2)
  %3: f32[4, 2] = exp(x)
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm(%3, _, _, _, _) {training=true relu=false eps=1e-05}
  host track(%5, %6)
  %7: f32[4, 2] = add(%0, %4)
  %8: f32[4, 2] = relu(%7)
  return %8
}
)",
              1, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  host track(%1, %2)
  %3: f32[4, 2] = exp(x)
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_add_relu(%3, _, _, _, _, %0) {training=true relu=true eps=1e-05}
  host track(%5, %6)
  return %4
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2] = exp(x)
  %4: f32[4, 2] = add(%0, %3)
  %5: f32[4, 2] = relu(%4)
  return %5
}
)");
}

// Host work may change the residual after the norm has read it.
TEST(FuseNorm, NotIfHostWorkMayChangeTheResidual) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  state r: f32[4, 2]
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  host track(%1, %2)
  %3: f32[4, 2] = add(%0, r)
  %4: f32[4, 2] = relu(%3)
  return %4
}
)");
}

TEST(FuseNorm, NotIfSomebodyElseReadsWhatIsBetween) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2] = relu(%0)
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1}
  %7: f32[4, 2] = relu(%4)
  %8: f32[4, 2] = exp(%4)
  %9: f32[4, 2], %10: f32[2], %11: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=2}
  %12: f32[4, 2] = add(%9, x)
  host look(%12)
  %13: f32[4, 2] = relu(%12)
  %14: f32[4, 2], %15: f32[2], %16: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=3}
  %17: f32[4, 2] = add(%14, %14)
  %18: f32[4, 2] = relu(%17)
  return %0, %3, %7, %8, %13, %18
}
)");
}

// A ReLU of the statistics, and a sum with a value that already has a ReLU.
TEST(FuseNorm, NotWhatIsNoNormsResult) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[2] = relu(%1)
  return %0, %3
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = add(%0, x)
  %4: f32[4, 2] = relu(%3)
  return %4
}
)");
}

TEST(FuseNorm, NotOverACastABroadcastOrAnotherLayout) {
  expect_no_change(kFuseNorm, R"(program(x: bf16[4, 2], r: bf16[2]) {
  %0: bf16[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2] = cast(%0) {dtype=f32}
  %4: f32[4, 2] = relu(%3)
  %5: bf16[4, 2], %6: f32[2], %7: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1}
  %8: bf16[4, 2] = add(%5, r)
  %9: bf16[4, 2] = relu(%8)
  return %4, %9
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2, 3, 3] channels_last, r: f32[4, 2, 3, 3]) {
  %0: f32[4, 2, 3, 3] channels_last, %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2, 3, 3] = add(r, %0)
  %4: f32[4, 2, 3, 3] = relu(%3)
  return %4
}
)");
}

TEST(FuseNorm, TheGradientTakesTheReluIn) {
  expect_pass(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2] = relu(%0)
  %4: f32[4, 2] = mul(g, %3) #backward
  %5: f32[4, 2] = relu_grad(%4, %3) over(%4) #backward
  %6: f32[4, 2], %7: f32[2], %8: f32[2] = batch_norm_grad(%5, x, _, _, %1, %2, _) {training=true relu=false eps=1e-05} over(%5, _, _, _) #backward
  return %6
}
)",
              2, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = mul(g, %0) #backward
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, _, _, %1, %2, _) {training=true relu=true eps=1e-05} over(%3, _, _, _) #backward
  return %4
}
)");
}

// The masked gradient also goes to the residual, which may need it first.
TEST(FuseNorm, TheGradientOfASumGivesTheResidualsAsWell) {
  expect_pass(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2], m: f32[2], v: f32[2]) {
  %0: f32[4, 2] = exp(x)
  %1: f32[4, 2] = batch_norm(%0, _, _, m, v) {training=false relu=false eps=1e-05}
  %2: f32[4, 2] = add(%1, x)
  %3: f32[4, 2] = relu(%2)
  %4: f32[4, 2] = relu_grad(g, %3) #backward
  %5: f32[4, 2] = exp(%4) #backward
  %6: f32[4, 2], %7: f32[2], %8: f32[2] = batch_norm_grad(%4, %0, _, _, m, v, _) {training=false relu=false eps=1e-05} over(%4, _, _, _) #backward
  %9: f32[4, 2] = add(%5, %6) over(%6) #backward
  return %9
}
)",
              2, R"(program(x: f32[4, 2], g: f32[4, 2], m: f32[2], v: f32[2]) {
  %0: f32[4, 2] = exp(x)
  %1: f32[4, 2] = batch_norm_add_relu(%0, _, _, m, v, x) {training=false relu=true eps=1e-05}
  %2: f32[4, 2], %3: f32[2], %4: f32[2], %5: f32[4, 2] = batch_norm_grad(g, %0, _, _, m, v, %1) {training=false relu=true eps=1e-05} over(%0, _, _, g) #backward
  %6: f32[4, 2] = exp(%5) #backward
  %7: f32[4, 2] = add(%6, %2) over(%2) #backward
  return %7
}
)");
}

TEST(FuseNorm, NotTheGradientOfAnotherNormOrReadByOthers) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, _, _, %2, %1, _) {training=true relu=false eps=1e-05} #backward
  return %4
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  %4: f32[4, 2] = exp(%3) #backward
  %5: f32[4, 2], %6: f32[2], %7: f32[2] = batch_norm_grad(%3, x, _, _, %1, %2, _) {training=true relu=false eps=1e-05} #backward
  return %4, %5
}
)");
}

TEST(FuseNorm, NotTheGradientWithAnotherEps) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, _, _, %1, %2, _) {training=true relu=false eps=1} #backward
  return %4
}
)");
}

// Host work in between may change the incoming gradient or the weight.
TEST(FuseNorm, NotTheGradientOverHostWork) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  host scale(g)
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, _, _, %1, %2, _) {training=true relu=false eps=1e-05} #backward
  return %4
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2], r: f32[4, 2]) {
  state s: f32[2]
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm_add_relu(x, s, _, _, _, r) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  host update() #update
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, s, _, %1, %2, _) {training=true relu=false eps=1e-05} #backward
  return %4
}
)");
}

// After an update the norm would see other signs, and host work may need the masked gradient.
TEST(FuseNorm, NotTheGradientOverAnUpdate) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2]) {
  state s: f32[2]
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, s, _, _, _) {training=true relu=true eps=1e-05}
  host update() #update
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, s, _, %1, %2, _) {training=true relu=false eps=1e-05} #backward
  return %4
}
)");
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2], g: f32[4, 2], r: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm_add_relu(x, _, _, _, _, r) {training=true relu=true eps=1e-05}
  %3: f32[4, 2] = relu_grad(g, %0) #backward
  host unscale(%3)
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm_grad(%3, x, _, _, %1, %2, _) {training=true relu=false eps=1e-05} #backward
  return %4
}
)");
}

// Calls whose precision is not decided yet are not joined.
TEST(FuseNorm, NotWhatIsStillToBePainted) {
  expect_no_change(kFuseNorm, R"(program(x: f32[4, 2]) {
  %0: f32[4, 2], %1: f32[2], %2: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1e-05}
  %3: f32[4, 2] = relu(%0) [O2/bf16]
  %4: f32[4, 2], %5: f32[2], %6: f32[2] = batch_norm(x, _, _, _, _) {training=true relu=false eps=1} in bf16
  %7: f32[4, 2] = relu(%4)
  return %3, %7
}
)");
}

// Two matrix products and two norms, the second with a residual: parameters a, b, s, t.
template <class Block>
PlainTraining residual_block(const Block& block, std::optional<DType> dtype = std::nullopt) {
  return {{{8, 8}, {8, 8}, {8}, {8}},
          {16, 8},
          [block](std::span<const Tensor> p, const Tensor& x) {
            const Tensor y = block(p, x);
            return mean((y * y).astype(DType::kF32));
          },
          dtype};
}

Tensor plain_block(std::span<const Tensor> p, const Tensor& x) {
  const Tensor y = relu(batch_norm(matmul(x, p[0]), p[2], p[3]).y);
  return relu(batch_norm(matmul(y, p[1]), p[2], p[3]).y + y);
}

Tensor fused_block(std::span<const Tensor> p, const Tensor& x) {
  const Tensor y = batch_norm(matmul(x, p[0]), p[2], p[3], {.relu = true}).y;
  return batch_norm(matmul(y, p[1]), p[2], p[3], {.relu = true, .residual = y}).y;
}

TEST(FuseNorm, PlainCodeBecomesTheFusedModulesProgram) {
  const CompileOptions options;
  std::string plain;
  std::string fused;
  EXPECT_TRUE(train(residual_block(plain_block), &options, &plain) ==
              train(residual_block(fused_block), &options, &fused));
  EXPECT_EQ(plain, fused);
}

TEST(FuseNorm, TrainsWithTheBitsOfPlainCodeInF32) {
  expect_trains_alike(residual_block(plain_block), "batch_norm_add_relu");
}

// The norm's result is not rounded before the residual is added.
TEST(FuseNorm, TrainsCloselyIn16Bits) {
  expect_trains_alike(residual_block(plain_block, DType::kBf16), "batch_norm_add_relu", 0x1p-5);
  expect_trains_alike(residual_block(plain_block, DType::kF16), "batch_norm_add_relu", 0x1p-8);
}

TEST(FuseNorm, CanBeLeftOut) {
  expect_plain_without("fuse_norm", residual_block(plain_block, DType::kBf16), "relu=true");
}

}  // namespace
}  // namespace mezzo::graph
