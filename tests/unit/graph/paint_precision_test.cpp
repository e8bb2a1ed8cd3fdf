#include "mezzo/graph/passes/paint_precision.h"

#include <memory>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/binary_cross_entropy.h"
#include "tests/unit/graph/paints_of.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

// A program of calls that all have the same shape, as text.
std::string program_of(std::string_view lines, std::string_view returns) {
  return concat(
      "program(x: f32[8, 8], y: f32[8, 8]) {\n  state w: f32[8, 8]\n  state v: f32[8, 8]\n", lines,
      "  return ", returns, "\n}\n");
}

std::string paints(std::string_view lines, std::string_view returns) {
  Program program = program_in(program_of(lines, returns));
  return paints_of(program);
}

std::vector<std::string> reasons(std::string_view lines, std::string_view returns) {
  Program program = program_in(program_of(lines, returns));
  paint_precision(program);
  std::vector<std::string> result;
  for (const Node& node : program.nodes) result.push_back(node.reason);
  return result;
}

// The same call at another level.
std::string paint_at(std::string_view level, std::string_view call) {
  const char* more = call.starts_with("layer_norm") ? ", %mean: f32[8], %rstd: f32[8]" : "";
  return paints(concat("  %0: f32[8, 8]", more, " = ", call, " [", level, "]\n"), "%0");
}

TEST(PaintPrecision, WorkedExample) {
  // The example of TF grappler's auto_mixed_precision: deny infer clear infer clear allow infer.
  // All nodes before the last clear node become deny, and that one allow. OneFlow's rule for nodes
  // before an end also makes the last one white.
  const char* lines = R"(
  %0: f32[8, 8] = exp(x) [auto/bf16]
  %1: f32[8, 8] = add(%0, %0) [auto/bf16]
  %2: f32[8, 8] = relu(%1) [auto/bf16]
  %3: f32[8, 8] = add(%2, %2) [auto/bf16]
  %4: f32[8, 8] = relu(%3) [auto/bf16]
  %5: f32[8, 8] = matmul(%4, %4) [auto/bf16]
  %6: f32[8, 8] = add(%5, %5) [auto/bf16]
)";
  EXPECT_EQ(paints(lines, "%6"),
            "exp f32, add f32, relu f32, add f32, relu bf16, matmul bf16, add bf16");
  EXPECT_EQ(reasons(lines, "%6"),
            (std::vector<std::string>{"it needs f32", "follows exp in f32", "follows exp in f32",
                                      "follows exp in f32", "next to matmul",
                                      "it gains from 16 bits", "between matmul and an end"}));
}

TEST(PaintPrecision, CountsWhatHas16Bits) {
  Program program = program_in(program_of(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = relu(%0) [auto/bf16]
  %2: f32[8, 8] = exp(%1) [auto/bf16]
)",
                                          "%2"));
  EXPECT_EQ(paint_precision(program), 2);
}

TEST(PaintPrecision, LevelsDecideAsAutocastDoes) {
  EXPECT_EQ(paint_at("O0/bf16", "matmul(x, w)"), "matmul -");
  EXPECT_EQ(paint_at("O1/bf16", "matmul(x, w)"), "matmul bf16");
  EXPECT_EQ(paint_at("O1/bf16", "relu(x)"), "relu f32");
  EXPECT_EQ(paint_at("O1/bf16", "add(x, y)"), "add f32");
  EXPECT_EQ(paint_at("O2/f16", "relu(x)"), "relu f16");
  EXPECT_EQ(paint_at("O2/bf16", "exp(x)"), "exp f32");
  EXPECT_EQ(paint_at("O2/bf16", "layer_norm(x, _, _)"), "layer_norm -");
  EXPECT_EQ(paint_at("O3/bf16", "layer_norm(x, _, _)"), "layer_norm bf16");
  EXPECT_EQ(paint_at("O3/bf16", "exp(x)"), "exp bf16");
  EXPECT_EQ(paint_at("O3/f32", "matmul(x, w)"), "matmul f32");
  EXPECT_EQ(paint_at("auto/bf16", "sqrt(x)"), "sqrt -");
  EXPECT_EQ(paint_at("auto/f16", "sqrt(x)"), "sqrt f32");
}

TEST(PaintPrecision, OnlyLevelAutoLeavesAnythingToBeDecided) {
  // A view between two products that level O2 paints, and one that takes any dtype.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = relu(x) [O2/bf16]
  %1: f32[8, 8] strides=[1, 8] = permute(%0) {shape=[1, 0]} [O2/bf16]
  %2: f32[8, 8], %mean2: f32[8], %rstd2: f32[8] = layer_norm(%1, _, _) [O2/bf16]
  %3: f32[8, 8] = matmul(%2, w) [O2/bf16]
)",
                   "%3"),
            "relu bf16, permute -, layer_norm -, matmul bf16");
}

TEST(PaintPrecision, RefusesWhatAutocastRefuses) {
  Program program =
      program_in(program_of("  %0: f32[] = binary_cross_entropy(x, y) [auto/f16]\n", "%0"));
  const Tensor half = full({2}, 0.5);
  const std::string eager = message_of<ArgumentError>([&] {
    const amp::Autocast region(DType::kF16);
    binary_cross_entropy(half, half);
  });
  EXPECT_EQ(message_of<ArgumentError>([&] { paint_precision(program); }), eager);
  EXPECT_NE(eager.find("is not safe in f16"), std::string::npos);
}

TEST(PaintPrecision, BlackFlowsForwardToGrayOnly) {
  // The clear node only leads to a matrix product, so f32 ends there; what leads to a sum is f32.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = softmax(x) [auto/bf16]
  %1: f32[8, 8] = relu(%0) [auto/bf16]
  %2: f32[8, 8] = matmul(%1, w) [auto/bf16]
  %3: f32[8, 8] = relu(%0) [auto/bf16]
  %4: f32[8, 8] = add(%3, %2) [auto/bf16]
  %5: f32[8, 8] = matmul(%4, w) [auto/bf16]
)",
                   "%5"),
            "softmax f32, relu bf16, matmul bf16, relu f32, add f32, matmul bf16");
}

TEST(PaintPrecision, SumsBetweenProductsAreWhite) {
  const char* lines = R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[8, 8], %mean2: f32[8], %rstd2: f32[8] = layer_norm(%1, _, _) [auto/bf16]
  %3: f32[8, 8] = matmul(%2, w) [auto/bf16]
)";
  EXPECT_EQ(paints(lines, "%3"), "matmul bf16, add bf16, layer_norm bf16, matmul bf16");
  EXPECT_EQ(reasons(lines, "%3")[1], "between matmul and matmul");
  // Nothing lies between before the first product and after the last.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = add(x, y) [auto/bf16]
  %1: f32[8, 8] = matmul(%0, w) [auto/bf16]
)",
                   "%1"),
            "add -, matmul bf16");
}

TEST(PaintPrecision, SumsThatSaveNoCastStay) {
  // If the sum is white, both summands are cast, and the sum is cast back for the exponential:
  // three casts. Otherwise the product is cast to f32 and the sum to 16 bits for the second
  // product: two casts.
  const char* lines = R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, y) [auto/bf16]
  %2: f32[8, 8] = add(%1, v) [auto/bf16]
  %3: f32[8, 8] = matmul(%2, w) [auto/bf16]
)";
  EXPECT_EQ(paints(lines, "%3"), "matmul bf16, add bf16, add bf16, matmul bf16");
  EXPECT_EQ(paints(concat(lines, "  %4: f32[8, 8] = exp(%2) [auto/bf16]\n"), "%3, %4"),
            "matmul bf16, add -, add -, matmul bf16, exp f32");
}

TEST(PaintPrecision, ClearNodesBeforeAProductAreWhite) {
  const char* lines = R"(
  %0: f32[8, 8] = relu(x) [auto/bf16]
  %1: f32[8, 8] strides=[1, 8] = permute(%0) {shape=[1, 0]} [auto/bf16]
  %2: f32[8, 8] = matmul(%1, w) [auto/bf16]
)";
  EXPECT_EQ(paints(lines, "%2"), "relu bf16, permute bf16, matmul bf16");
  // Another call needs the unrounded result, even if x has 16 bits in any case.
  const std::string more = concat(lines, "  %3: f32[8, 8] = matmul(x, w) [auto/bf16]\n");
  EXPECT_EQ(paints(more, "%2, %3, %0"), "relu -, permute bf16, matmul bf16, matmul bf16");
  EXPECT_EQ(paints(concat(more, "  %4: f32[8, 8] = exp(%0) [auto/bf16]\n"), "%2, %3, %4"),
            "relu -, permute bf16, matmul bf16, matmul bf16, exp f32");
  EXPECT_EQ(paints(lines, "%2, %1"), "relu -, permute -, matmul bf16");
  EXPECT_EQ(paints(concat(lines, "  %3: f32[8, 8] = exp(%0) [auto/bf16]\n"), "%2, %3"),
            "relu -, permute bf16, matmul bf16, exp f32");
}

TEST(PaintPrecision, ClearNodesThatShrinkAreNotPaintedBefore) {
  // Casting all values for the sake of some would convert more.
  EXPECT_EQ(paints(R"(
  %0: f32[2, 8] = slice(x) {axis=0 start=0 step=1 count=2} [auto/bf16]
  %1: f32[2, 8] = matmul(%0, w) [auto/bf16]
)",
                   "%1"),
            "slice -, matmul bf16");
}

TEST(PaintPrecision, ClearNodesAfterAProductAreWhite) {
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = relu(%0) [auto/bf16]
  %2: f32[8, 8] = sigmoid(%1) [auto/bf16]
  %3: f32[8, 8] = exp(%2) [auto/bf16]
)",
                   "%3"),
            "matmul bf16, relu bf16, sigmoid bf16, exp f32");
}

TEST(PaintPrecision, WhatLeadsToAnEndIsWhite) {
  // x has 16 bits for the product already. The sum is returned, or nobody reads it.
  const char* lines = R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
)";
  EXPECT_EQ(paints(lines, "%1"), "matmul bf16, add bf16");
  EXPECT_EQ(paints(lines, "x"), "matmul bf16, add bf16");
  EXPECT_EQ(reasons(lines, "%1")[1], "between matmul and an end");
}

TEST(PaintPrecision, PaintsNotAcrossRegionsOfTwoDTypes) {
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[8, 8] = matmul(%1, w) [auto/f16]
  %3: f32[8, 8] = add(%2, x) [auto/f16]
  %4: f32[8, 8] = matmul(%3, w) [auto/f16]
)",
                   "%4"),
            "matmul bf16, add -, matmul f16, add f16, matmul f16");
  // Two regions of the same dtype count as one.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [O1/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[8, 8] = matmul(%1, w) [O2/bf16]
)",
                   "%2"),
            "matmul bf16, add bf16, matmul bf16");
}

TEST(PaintPrecision, ARegionThatIsOffReadsWhatAutocastWouldGive) {
  // The normalisation outside the region reads the f32 sum, so it stays f32.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[8, 8] = relu(%1) [auto/bf16]
  %3: f32[8, 8], %mean3: f32[8], %rstd3: f32[8] = layer_norm(%2, _, _)
  %4: f32[8, 8] = matmul(%3, w) [auto/bf16]
  %5: f32[8, 8] = matmul(%1, w) [auto/bf16]
)",
                   "%4, %5"),
            "matmul bf16, add -, relu -, layer_norm -, matmul bf16, matmul bf16");
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x)
  %2: f32[8, 8] = matmul(%1, w) [auto/bf16]
)",
                   "%2"),
            "matmul bf16, add -, matmul bf16");
}

TEST(PaintPrecision, InputsThatAreNotCastAreWhatAutocastWouldGive) {
  // The row becomes a bias, which is added in f32.
  EXPECT_EQ(paints(R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[1, 8] = slice(%1) {axis=0 start=0 step=1 count=1} [auto/bf16]
  %3: f32[8] = reshape(%2) {shape=[8]} [auto/bf16]
  %4: f32[8, 8] = linear(%1, w, %3) [auto/bf16]
)",
                   "%4"),
            "matmul bf16, add -, slice -, reshape -, linear bf16");
}

TEST(PaintPrecision, LeavesWhatMayNotBeCast) {
  Program program = program_in(R"(program(x: f32[8, 8], t: i64[8], d: f64[8, 8]) {
  %0: f32[8, 8] = cast(d) {dtype=f32} [O2/bf16]
  %1: f64[8, 8] = relu(d) [O2/bf16]
  %2: f32[8, 5] = one_hot(t) {classes=5 dtype=f32} [O2/bf16]
  %3: f32[], %4: f32[8, 8] = cross_entropy(x, t) [O2/bf16]
  %5: f64[8, 8] = add(d, %1) [auto/bf16]
  %6: f32[8, 8] = exp(x) [auto/bf16]
  %7: f64[8, 8] = add(%6, d) [auto/bf16]
  %8: f64[8, 8] = matmul(x, d) [O2/bf16]
  host watch(%5)
  return %3
}
)");
  EXPECT_EQ(paints_of(program),
            "cast -, relu -, one_hot -, cross_entropy -, add -, exp f32, add -, matmul -, watch -");
  EXPECT_EQ(program.nodes[0].reason, "it is an explicitly requested cast");
}

TEST(PaintPrecision, RulesOfTheUserWin) {
  const char* lines = R"(
  %0: f32[8, 8] = matmul(x, w) [auto/bf16]
  %1: f32[8, 8] = add(%0, x) [auto/bf16]
  %2: f32[8, 8] = relu(%1) [auto/bf16]
  %3: f32[8, 8] = exp(%2) [auto/bf16]
  %4: f32[8, 8] = matmul(%3, w) [auto/bf16]
)";
  const auto under = [&](const amp::OpRules& rules) {
    Program program = program_in(program_of(lines, "%4"));
    const auto policy = std::make_shared<amp::Policy>();
    policy->rules = std::make_shared<amp::OpRules>(rules);
    for (Node& node : program.nodes) node.policy = policy;
    return paints_of(program);
  };
  EXPECT_EQ(under({}), "matmul bf16, add -, relu -, exp f32, matmul bf16");
  EXPECT_EQ(under(amp::OpRules().lower("exp")),
            "matmul bf16, add bf16, relu bf16, exp bf16, matmul bf16");
  EXPECT_EQ(under(amp::OpRules().lower("exp").keep_float32("add")),
            "matmul bf16, add f32, relu bf16, exp bf16, matmul bf16");
  EXPECT_EQ(under(amp::OpRules().lower("exp").follow("add")),
            "matmul bf16, add -, relu bf16, exp bf16, matmul bf16");
  const std::string only[] = {"relu"};
  EXPECT_EQ(under(amp::OpRules::white_list(only)),
            "matmul f32, add f32, relu bf16, exp f32, matmul f32");
  EXPECT_EQ(under(amp::OpRules::black_list(only)),
            "matmul bf16, add bf16, relu f32, exp bf16, matmul bf16");
}

}  // namespace
}  // namespace mezzo::graph
