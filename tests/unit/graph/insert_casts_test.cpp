#include "mezzo/graph/passes/insert_casts.h"

#include <memory>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/graph/verify.h"
#include "mezzo/ops/cast.h"
#include "tests/unit/graph/eager_casts.h"
#include "tests/unit/graph/paints_of.h"

namespace mezzo::graph {
namespace {

// The result of the pass for a painted program.
std::string inserted(std::string_view before) {
  Program program = program_in(before);
  const std::size_t nodes = program.nodes.size();
  const std::size_t casts = insert_casts(program);
  EXPECT_EQ(program.nodes.size(), nodes + casts);
  EXPECT_NO_THROW(verify(program));
  return to_text(program);
}

std::string text_of(std::string_view program) { return to_text(program_in(program)); }

TEST(InsertCasts, OneCastPerValueAndDTypeBeforeItsFirstReader) {
  EXPECT_EQ(inserted(R"(program(x: f32[4, 8], y: f32[4, 8]) {
  state fc.weight: f32[8, 8]
  state fc.bias: f32[8]
  %0: f32[4, 8] = relu(y) @act
  %1: f32[4, 8] = linear(x, fc.weight, fc.bias) @fc [auto/bf16] in bf16 because "why"
  %2: f32[4, 8] = linear(x, fc.weight, _) @fc.again in bf16
  %3: f32[4, 8] = linear(%1, fc.weight, _) in f16
  return %0, %2, %3
}
)"),
            text_of(R"(program(x: f32[4, 8], y: f32[4, 8]) {
  state fc.weight: f32[8, 8]
  state fc.bias: f32[8]
  %0: f32[4, 8] = relu(y) @act
  %1: bf16[4, 8] = cast(x) {dtype=bf16} @fc because "linear reads it"
  %2: bf16[8, 8] = cast(fc.weight) {dtype=bf16} @fc because "linear reads it"
  %3: bf16[4, 8] = linear(%1, %2, fc.bias) @fc because "why"
  %4: bf16[4, 8] = linear(%1, %2, _) @fc.again
  %5: f16[4, 8] = cast(%3) {dtype=f16} because "linear reads it"
  %6: f16[8, 8] = cast(fc.weight) {dtype=f16} because "linear reads it"
  %7: f16[4, 8] = linear(%5, %6, _)
  %8: f32[4, 8] = cast(%4) {dtype=f32} because "the program returns it"
  %9: f32[4, 8] = cast(%7) {dtype=f32} because "the program returns it"
  return %0, %8, %9
}
)"));
}

TEST(InsertCasts, DTypesFlowToWhatTakesWhatComes) {
  EXPECT_EQ(inserted(R"(program(x: f32[2, 4, 8]) {
  state w: f32[8, 8]
  %0: f32[2, 4, 8] = linear(x, w, _) in bf16
  %1: f32[2, 4, 8] = relu(%0)
  %2: f32[8, 4, 2] = permute(%1) {shape=[2, 1, 0]}
  %3: f32[8, 4, 2] strides=[1, 8, 32] = tanh(%2)
  host watch(%3)
  return
}
)"),
            text_of(R"(program(x: f32[2, 4, 8]) {
  state w: f32[8, 8]
  %0: bf16[2, 4, 8] = cast(x) {dtype=bf16} because "linear reads it"
  %1: bf16[8, 8] = cast(w) {dtype=bf16} because "linear reads it"
  %2: bf16[2, 4, 8] = linear(%0, %1, _)
  %3: bf16[2, 4, 8] = relu(%2)
  %4: bf16[8, 4, 2] strides=[1, 8, 32] = permute(%3) {shape=[2, 1, 0]}
  %5: bf16[8, 4, 2] = tanh(%4)
  host watch(%5)
  return
}
)"));
}

TEST(InsertCasts, PromotesWhatMustAgree) {
  EXPECT_EQ(inserted(R"(program(x: f32[8, 8]) {
  state w: f32[8, 8]
  %0: f32[8, 8] = matmul(x, w) in bf16
  %1: f32[8, 8] = add(%0, x)
  %2: f32[8, 8] = add(%0, w)
  return %1, %2
}
)"),
            text_of(R"(program(x: f32[8, 8]) {
  state w: f32[8, 8]
  %0: bf16[8, 8] = cast(x) {dtype=bf16} because "matmul reads it"
  %1: bf16[8, 8] = cast(w) {dtype=bf16} because "matmul reads it"
  %2: bf16[8, 8] = matmul(%0, %1)
  %3: f32[8, 8] = cast(%2) {dtype=f32} because "add reads it"
  %4: f32[8, 8] = add(%3, x)
  %5: f32[8, 8] = add(%3, w)
  return %4, %5
}
)"));
}

TEST(InsertCasts, OnlyWhatTheMaskAllowsAndWhatTakesPart) {
  const char* text = R"(program(x: f32[4, 8], t: i64[4], d: f64[4, 8]) {
  state scale: f32[8]
  %0: f32[], %1: f32[4, 2] = cross_entropy(x, t) in bf16
  %2: f64[4, 8] = add(d, d) in bf16
  %3: f32[4, 5] = one_hot(t) {classes=5 dtype=f32} in bf16
  return %0, %2, %3
}
)";
  EXPECT_EQ(inserted(text).find("cast("), std::string::npos);
}

TEST(InsertCasts, SixteenBitsThatWereWidenedAreTakenAsTheyWere) {
  // A cast from bf16 to f32 and back loses nothing; one from f32 to bf16 and back does.
  EXPECT_EQ(inserted(R"(program(x: bf16[8, 8], y: f32[8, 8]) {
  %0: f32[8, 8] = cast(x) {dtype=f32}
  %1: bf16[8, 8] = cast(y) {dtype=bf16}
  %2: bf16[8, 8] = matmul(%0, %1) in bf16
  %3: f16[8, 8] = matmul(%0, %0) in f16
  %4: f32[8, 8] = exp(%1) in f32
  return %2, %3, %4
}
)"),
            text_of(R"(program(x: bf16[8, 8], y: f32[8, 8]) {
  %0: f32[8, 8] = cast(x) {dtype=f32}
  %1: bf16[8, 8] = cast(y) {dtype=bf16}
  %2: bf16[8, 8] = matmul(x, %1)
  %3: f16[8, 8] = cast(%0) {dtype=f16} because "matmul reads it"
  %4: f16[8, 8] = matmul(%3, %3)
  %5: f32[8, 8] = cast(%1) {dtype=f32} because "exp reads it"
  %6: f32[8, 8] = exp(%5)
  return %2, %4, %6
}
)"));
}

constexpr const char* kNormalisation = R"(program(x: f32[4, 8]) {
  state weight: f32[8]
  state bias: f32[8]
  state mean: f32[8]
  state var: f32[8]
  %0: f32[4, 8], %1: f32[8], %2: f32[8] = batch_norm(x, weight, bias, mean, var) [O3/bf16] in bf16
  %3: f32[4, 8] = mul(%0, weight) [O3/bf16] in bf16
  return %3
}
)";

TEST(InsertCasts, ParametersOfNormalisationsAreRoundedAtO3) {
  EXPECT_EQ(inserted(kNormalisation), text_of(R"(program(x: f32[4, 8]) {
  state weight: f32[8]
  state bias: f32[8]
  state mean: f32[8]
  state var: f32[8]
  %0: bf16[4, 8] = cast(x) {dtype=bf16} because "batch_norm reads it"
  %1: bf16[8] = cast(weight) {dtype=bf16} because "batch_norm reads it"
  %2: f32[8] = cast(%1) {dtype=f32} because "batch_norm reads it"
  %3: bf16[8] = cast(bias) {dtype=bf16} because "batch_norm reads it"
  %4: f32[8] = cast(%3) {dtype=f32} because "batch_norm reads it"
  %5: bf16[4, 8], %6: f32[8], %7: f32[8] = batch_norm(%0, %2, %4, mean, var)
  %8: bf16[4, 8] = mul(%5, %1)
  %9: f32[4, 8] = cast(%8) {dtype=f32} because "the program returns it"
  return %9
}
)"));
}

TEST(InsertCasts, FrozenParametersAreRoundedAsWell) {
  Program program = program_in(kNormalisation);
  for (Value& value : program.values) {
    if (value.kind != ValueKind::kState) continue;
    value.tensor = zeros({8});
    value.tensor.set_requires_grad(value.name == "bias");
  }
  // x, the weight and the bias twice, no statistic; the result.
  EXPECT_EQ(insert_casts(program), 6);
}

TEST(InsertCasts, ParametersAreKeptWhereThePolicySaysSo) {
  std::string text = kNormalisation;
  text.replace(text.find("[O3/bf16]"), 9, "[O3/bf16 keep_batchnorm_fp32=true]");
  // x, the weight for the product, the result.
  Program program = program_in(text);
  EXPECT_EQ(insert_casts(program), 3);
}

TEST(InsertCasts, ResultsAreNotWrittenOverWhatHasAnotherSize) {
  EXPECT_EQ(inserted(R"(program(x: f32[8, 8]) {
  %0: f32[8, 8] = tanh(x)
  %1: f32[8, 8] = relu(%0) over(%0) in bf16
  %2: f32[8, 8] = relu(%1) over(%1)
  return
}
)"),
            text_of(R"(program(x: f32[8, 8]) {
  %0: f32[8, 8] = tanh(x)
  %1: bf16[8, 8] = cast(%0) {dtype=bf16} because "relu reads it"
  %2: bf16[8, 8] = relu(%1)
  %3: bf16[8, 8] = relu(%2) over(%2)
  return
}
)"));
}

TEST(InsertCasts, ForgetsPaintAndPolicyAndIsDoneThen) {
  Program program = program_in(kNormalisation);
  insert_casts(program);
  for (const Node& node : program.nodes) {
    EXPECT_EQ(node.policy, nullptr);
    EXPECT_FALSE(node.paint.has_value());
  }
  EXPECT_EQ(insert_casts(program), 0);
}

}  // namespace
}  // namespace mezzo::graph
