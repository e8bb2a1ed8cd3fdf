// Tests the recomputation of convolutions: programs before and after the pass.
#include <string>

#include <gtest/gtest.h>

#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/passes/passes.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

// A product compared with which a convolution is little work. The program returns it, so it takes
// no part of the arena.
const std::string kProduct =
    "  %0: f32[2048, 2048] = matmul(a, b) {transpose_a=false transpose_b=false f32_result=false}\n";

// The program of these lines, after a large product. N and W stand for images of few and of many
// channels.
std::string text_of(const std::string& lines, const std::string& states = "") {
  const std::string conv = "stride=[1, 1] padding=[0, 0, 0, 0] dilation=[1, 1] groups=1";
  std::string text =
      "program(x: N, a: f32[2048, 2048], b: f32[2048, 2048]) {\n"
      "  state w: f32[64, 4, 1, 1]\n" +
      states + kProduct + lines + "}\n";
  text = replaced(text, ": N", ": f32[2, 4, 32, 32] channels_last");
  text = replaced(text, ": W", ": f32[2, 64, 32, 32] channels_last");
  text = replaced(text, "{conv}", "{" + conv + "}");
  text = replaced(text, "{grad_weight}",
                  "{conv=(" + conv + ") size=[1, 1] f32_result=false format=contiguous}");
  return replaced(text, "{grad_input}",
                  "{conv=(" + conv + ") size=[32, 32] f32_result=false format=contiguous}");
}

// The convolution's result is kept while three more are computed, and then read.
const std::string kKept = text_of(R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @conv
  %3: W = sigmoid(%2)
  %4: W = relu(%3)
  %5: W = mul(%3, %4)
  %6: W = mul(%5, %2) #backward
  %7: f32[64, 4, 1, 1] = conv2d_grad_weight(%6, %1) {grad_weight} #backward
  return %0, %7
)");

TEST(RecomputeConvs, OneThatIsReadByBackwardOnly) {
  expect_pass(kRecomputeConvs, kKept, 1, text_of(R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @conv
  %3: W = sigmoid(%2)
  %4: W = relu(%3)
  %5: W = mul(%3, %4)
  %6: W = conv2d(%1, w, _) {conv} @conv #backward
  %7: W = mul(%5, %6) #backward
  %8: f32[64, 4, 1, 1] = conv2d_grad_weight(%7, %1) {grad_weight} #backward
  return %0, %8
)"));
}

TEST(RecomputeConvs, TheArenaIsSmaller) {
  Program program = parse_program(kKept);
  const std::size_t before = plan_memory(program).arena_bytes;
  const std::size_t result = std::size_t{2} * 64 * 32 * 32 * 4;
  EXPECT_EQ(memory_peak(program).bytes, plan_memory(program).least_bytes);
  recompute_convs(program);
  EXPECT_EQ(plan_memory(program).arena_bytes, before - result);
}

// The norm is recomputed after the gradient with respect to images; it now has to come earlier.
TEST(RecomputeConvs, ItsNormComesFirst) {
  const std::string forward = R"(  %1: N = relu(x)
  %2: N, %3: f32[4], %4: f32[4] = batch_norm(%1, _, _, _, _) {training=true relu=true eps=1e-05} @norm
  %5: W = conv2d(%2, w, _) {conv} @conv
  %6: W = sigmoid(%5)
  %7: W = relu(%6)
  %8: W = mul(%6, %7)
)";
  expect_pass(
      kRecomputeConvs, text_of(forward + R"(  %9: W = mul(%8, %5) #backward
  %10: N = conv2d_grad_input(%9, w) {grad_input} #backward
  %11: N = batch_norm(%1, _, _, %3, %4) {training=false relu=true eps=1e-05} @norm #backward
  %12: f32[64, 4, 1, 1] = conv2d_grad_weight(%9, %11) {grad_weight} #backward
  %13: N = mul(%10, %1) #backward
  return %0, %12, %13
)"),
      1,
      text_of(
          forward +
          R"(  %9: N = batch_norm(%1, _, _, %3, %4) {training=false relu=true eps=1e-05} @norm #backward
  %10: W = conv2d(%9, w, _) {conv} @conv #backward
  %11: W = mul(%8, %10) #backward
  %12: N = conv2d_grad_input(%11, w) {grad_input} #backward
  %13: f32[64, 4, 1, 1] = conv2d_grad_weight(%11, %9) {grad_weight} #backward
  %14: N = mul(%12, %1) #backward
  return %0, %13, %14
)"));
}

// The second reads the result of the first, which is itself recomputed.
TEST(RecomputeConvs, OneBehindTheOther) {
  const std::string states = "  state v: f32[64, 64, 1, 1]\n";
  const std::string forward = R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @first
  %3: W = conv2d(%2, v, _) {conv} @second
  %4: W = sigmoid(%3)
  %5: W = relu(%4)
  %6: W = exp(%5)
  %7: W = mul(%4, %6)
  %8: W = mul(%5, %7)
)";
  expect_pass(kRecomputeConvs,
              text_of(forward + R"(  %9: W = mul(%8, %3) #backward
  %10: W = mul(%9, %2) #backward
  %11: f32[64, 4, 1, 1] = conv2d_grad_weight(%10, %1) {grad_weight} #backward
  return %0, %11
)",
                      states),
              2,
              text_of(forward + R"(  %9: W = conv2d(%1, w, _) {conv} @first #backward
  %10: W = conv2d(%9, v, _) {conv} @second #backward
  %11: W = mul(%8, %10) #backward
  %12: W = mul(%11, %9) #backward
  %13: f32[64, 4, 1, 1] = conv2d_grad_weight(%12, %1) {grad_weight} #backward
  return %0, %13
)",
                      states));
}

// The caller owns the value before the cast. It is read once more, for the gradient.
TEST(RecomputeConvs, ACastOfAnInput) {
  const std::string forward = R"(program(x: f32[64, 64]) {
  %0: bf16[64, 64] = cast(x) {dtype=bf16} @conv
  %1: bf16[64, 64] = sigmoid(%0)
  %2: bf16[64, 64] = relu(%1)
  %3: bf16[64, 64] = mul(%1, %2)
)";
  std::string more;
  std::string last = "%3";
  for (int i = 4; i < 80; ++i) {
    more += concat("  %", i, ": bf16[64, 64] = mul(", last, ", %2)\n");
    last = concat("%", i);
  }
  expect_pass(kRecomputeConvs, forward + more + R"(  %80: bf16[64, 64] = mul(%79, %0) #backward
  return %80
}
)",
              1, forward + more + R"(  %80: bf16[64, 64] = cast(x) {dtype=bf16} @conv #backward
  %81: bf16[64, 64] = mul(%79, %80) #backward
  return %81
}
)");
}

// Without the product, the convolution is a large part of the work.
TEST(RecomputeConvs, NotIfItIsMuchOfTheWork) {
  const std::string little = "  %0: f32[2, 4, 32, 32] channels_last = sigmoid(x)\n";
  expect_no_change(kRecomputeConvs, replaced(kKept, kProduct, little));
}

TEST(RecomputeConvs, NotIfTheArenaStaysAsLarge) {
  expect_no_change(kRecomputeConvs, text_of(R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @conv
  %3: W = mul(%2, %2) #backward
  %4: W = relu(%2) #backward
  %5: W = mul(%3, %4) #backward
  %6: f32[64, 4, 1, 1] = conv2d_grad_weight(%5, %1) {grad_weight} #backward
  return %0, %6
)"));
}

TEST(RecomputeConvs, NotIfTheProgramReturnsIt) {
  expect_no_change(kRecomputeConvs, replaced(kKept, "return %0, %7", "return %0, %7, %2"));
}

// The images are no longer alive by then, and are as large as the result.
TEST(RecomputeConvs, NotIfItsImagesWouldHaveToStay) {
  expect_no_change(kRecomputeConvs, text_of(R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @first
  %3: W = conv2d(%2, v, _) {conv} @second
  %4: W = sigmoid(%3)
  %5: W = relu(%4)
  %6: W = mul(%4, %5)
  %7: W = mul(%6, %3) #backward
  return %0, %7
)",
                                            "  state v: f32[64, 64, 1, 1]\n"));
}

// Host work may change the weight, unless it says that only its own leaves see the change.
TEST(RecomputeConvs, NotIfItsWeightMayBeAnotherByThen) {
  const std::string with_work = replaced(kKept, "  %6: ", "  host change()\n  %6: ");
  expect_no_change(kRecomputeConvs, with_work);
  Program program = parse_program(with_work);
  for (Node& node : program.nodes) node.time = HostWorkTime::kCanWait;
  EXPECT_EQ(recompute_convs(program), 1U);
}

// The gradient with respect to images would be wrong if that happened.
TEST(RecomputeConvs, AWeightThatBackwardReadsStays) {
  Program program = parse_program(text_of(R"(  %1: N = relu(x)
  %2: W = conv2d(%1, w, _) {conv} @conv
  %3: W = sigmoid(%2)
  %4: W = relu(%3)
  %5: W = mul(%3, %4)
  host change()
  %6: W = mul(%5, %2) #backward
  %7: f32[64, 4, 1, 1] = conv2d_grad_weight(%6, %1) {grad_weight} #backward
  %8: N = conv2d_grad_input(%6, w) {grad_input} #backward
  return %0, %7, %8
)"));
  EXPECT_EQ(recompute_convs(program), 1U);
}

}  // namespace
}  // namespace mezzo::graph
