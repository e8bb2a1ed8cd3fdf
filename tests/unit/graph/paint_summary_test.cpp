#include "mezzo/graph/passes/paint_summary.h"

#include <gtest/gtest.h>

#include "mezzo/graph/passes/insert_casts.h"
#include "tests/unit/graph/paints_of.h"

namespace mezzo::graph {
namespace {

PaintSummary summary_of(std::string_view text) { return summarize(program_in(text)); }

TEST(PaintSummary, CountsOperationsAndCasts) {
  Program program = program_in(R"(program(x: f32[4, 8], t: i64[4], d: f64[4]) {
  state w: f32[8, 8]
  %0: f32[4, 8] = linear(x, w, _) [auto/bf16]
  %1: f32[4, 8] = relu(%0) [auto/bf16]
  %2: f32[4, 8] = exp(%1) [auto/bf16]
  %3: f32[], %4: f32[4, 2] = cross_entropy(%2, t) [auto/bf16]
  %5: f64[4] = cast(t) {dtype=f64}
  %6: f64[4] = add(%5, d)
  host watch(%3)
  return %3
}
)");
  paint_precision(program);
  insert_casts(program);
  const PaintSummary summary = summarize(program);
  EXPECT_EQ(summary, (PaintSummary{.ops = 6,
                                   .ops_lower = 2,
                                   .ops_f32 = 2,
                                   .casts = 2,
                                   .parameter_casts = 1,
                                   .lower = DType::kBf16}));
  EXPECT_EQ(to_text(summary),
            "converted 2 of 6 operations to bf16 with 2 casts (and 1 of parameters)");
}

TEST(PaintSummary, CountsBothCastsOfARoundedParameter) {
  EXPECT_EQ(summary_of(R"(program(x: f32[4, 8]) {
  state scale: f32[8]
  %0: bf16[8] = cast(scale) {dtype=bf16}
  %1: f32[8] = cast(%0) {dtype=f32}
  %2: f32[4, 8] = mul(x, %1)
  return %2
}
)"),
            (PaintSummary{.ops = 1, .ops_f32 = 1, .parameter_casts = 2}));
}

TEST(PaintSummary, LeavesTheOtherPhasesOut) {
  EXPECT_EQ(summary_of(R"(program(x: bf16[4, 8]) {
  %0: bf16[4, 8] = relu(x)
  %1: bf16[4, 8] = relu_grad(%0, %0) #backward
  %2: f32[4, 8] = cast(%1) {dtype=f32} #backward
  return %2
}
)"),
            (PaintSummary{.ops = 1, .ops_lower = 1, .lower = DType::kBf16}));
}

TEST(PaintSummary, SaysWhatIsThere) {
  EXPECT_EQ(to_text(PaintSummary{.ops = 7, .ops_f32 = 7}), "converted none of 7 operations");
  EXPECT_EQ(to_text(PaintSummary{.ops = 7, .ops_lower = 3, .casts = 1, .lower = DType::kF16}),
            "converted 3 of 7 operations to f16 with 1 cast");
  EXPECT_EQ(to_text(summary_of(R"(program(x: bf16[4], y: f16[4]) {
  %0: bf16[4] = relu(x)
  %1: f16[4] = relu(y)
  return %0, %1
}
)")),
            "converted 2 of 2 operations to 16 bits with 0 casts");
}

}  // namespace
}  // namespace mezzo::graph
