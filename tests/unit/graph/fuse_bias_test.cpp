#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/plain_training.h"

namespace mezzo::graph {
namespace {

TEST(FuseBias, FromEitherSideWhateverTheProductIs) {
  expect_pass(kFuseBias, R"(program(x: f32[2, 4, 8], w: f32[8, 8], b: f32[8]) {
  %0: f32[2, 4, 8] = matmul(x, w) {transpose_a=false transpose_b=false f32_result=false} @net.a
  %1: f32[2, 4, 8] = add(%0, b) @net
  %2: f32[2, 4, 8] = matmul(%1, w) {transpose_a=false transpose_b=true f32_result=false}
  %3: f32[2, 4, 8] = add(b, %2)
  %4: f32[2, 4, 8] = linear(%3, w, _)
  %5: f32[2, 4, 8] = add(%4, b) over(%4)
  return %5
}
)",
              3, R"(program(x: f32[2, 4, 8], w: f32[8, 8], b: f32[8]) {
  %0: f32[2, 4, 8] = matmul(x, w, b) {transpose_a=false transpose_b=false f32_result=false} @net
  %1: f32[2, 4, 8] = matmul(%0, w, b) {transpose_a=false transpose_b=true f32_result=false}
  %2: f32[2, 4, 8] = linear(%1, w, b)
  return %2
}
)");
}

TEST(FuseBias, ABiasThatIsMadeLaterIsWaitedFor) {
  expect_pass(kFuseBias, R"(program(x: bf16[4, 8], w: bf16[8, 8], b: f32[8]) {
  %0: bf16[4, 8] = matmul(x, w) {transpose_a=false transpose_b=false f32_result=false}
  %1: bf16[8] = cast(b) {dtype=bf16}
  %2: bf16[4, 8] = add(%0, %1)
  return %2
}
)",
              1, R"(program(x: bf16[4, 8], w: bf16[8, 8], b: f32[8]) {
  %0: bf16[8] = cast(b) {dtype=bf16}
  %1: bf16[4, 8] = matmul(x, w, %0) {transpose_a=false transpose_b=false f32_result=false}
  return %1
}
)");
}

TEST(FuseBias, NotIfSomebodyElseReadsTheProduct) {
  expect_no_change(kFuseBias, R"(program(x: f32[4, 8], w: f32[8, 8], b: f32[8]) {
  %0: f32[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = add(%0, b)
  %2: f32[4, 8] = linear(%1, w, _)
  %3: f32[4, 8] = add(%2, b)
  %4: f32[4, 8] = add(%2, %3)
  return %0, %4
}
)");
}

TEST(FuseBias, NotWhatIsNoBiasOrASecondOne) {
  expect_no_change(
      kFuseBias,
      R"(program(x: f32[4, 8], w: f32[8, 8], b: f32[8], c: f32[1], d: f32[4, 1], e: f32[1, 8]) {
  %0: f32[4, 8] = linear(x, w, b)
  %1: f32[4, 8] = add(%0, b)
  %2: f32[4, 8] = linear(%1, w, _)
  %3: f32[4, 8] = add(%2, c)
  %4: f32[4, 8] = linear(%3, w, _)
  %5: f32[4, 8] = add(%4, d)
  %6: f32[4, 8] = linear(%5, w, _)
  %7: f32[4, 8] = add(%6, e)
  %8: f32[4, 8] = linear(%7, w, _)
  %9: f32[4, 8] = add(%8, x)
  return %9
}
)");
}

TEST(FuseBias, NotOverACast) {
  expect_no_change(kFuseBias, R"(program(x: bf16[4, 8], w: bf16[8, 8], b: f32[8]) {
  %0: bf16[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = cast(%0) {dtype=f32}
  %2: f32[4, 8] = add(%1, b)
  return %2
}
)");
}

// The weight may have changed after the host work.
TEST(FuseBias, NotOverHostWork) {
  expect_no_change(kFuseBias, R"(program(x: f32[4, 8], b: f32[8]) {
  state w: f32[8, 8]
  %0: f32[4, 8] = linear(x, w, _)
  host update()
  %1: f32[4, 8] = add(%0, b)
  return %1
}
)");
}

PlainTraining two_layers_with_sums(std::optional<DType> parameters = std::nullopt) {
  return {{{8, 16}, {16}, {16, 4}, {4}},
          {6, 8},
          [parameters](std::span<const Tensor> p, const Tensor& x) {
            const auto as_wanted = [&](const Tensor& tensor) {
              return parameters.has_value() ? tensor.astype(*parameters) : tensor;
            };
            Tensor y = relu(matmul(as_wanted(x), as_wanted(p[0])) + as_wanted(p[1]));
            y = as_wanted(p[3]) + matmul(y, as_wanted(p[2]));
            return mean((y * y).astype(DType::kF32));
          }};
}

TEST(FuseBias, TrainsCloselyToPlainCode) {
  expect_trains_alike(two_layers_with_sums(), "_activation(", 0x1p-18);
  expect_trains_alike(two_layers_with_sums(DType::kBf16), "_activation(", 0x1p-5);
  expect_trains_alike(two_layers_with_sums(DType::kF16), "_activation(", 0x1p-8);
}

TEST(FuseBias, CanBeLeftOut) {
  expect_plain_without("fuse_bias", two_layers_with_sums(DType::kBf16), "_activation(");
}

}  // namespace
}  // namespace mezzo::graph
