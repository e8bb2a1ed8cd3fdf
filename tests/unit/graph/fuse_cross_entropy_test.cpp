#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/plain_training.h"

namespace mezzo::graph {
namespace {

TEST(FuseCrossEntropy, OfLabels) {
  expect_pass(kFuseCrossEntropy, R"(program(x: f32[4, 8], t: i64[4]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  %2: f32[4, 8] = mul(%0, %1)
  %3: f32[4] = sum(%2) {axes=[1] keepdim=false f32_result=false}
  %4: f32[] = mean(%3) {axes=[0] keepdim=false f32_result=false} @net
  %5: f32[] = affine(%4) {scale=-1 shift=0} @loss
  return %5
}
)",
              1, R"(program(x: f32[4, 8], t: i64[4]) {
  %0: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  %1: f32[], %2: f32[4, 2] = cross_entropy(x, t) {label_smoothing=0 reduction=mean} @loss
  return %1
}
)");
}

TEST(FuseCrossEntropy, OfProbabilitiesAddedUp) {
  expect_pass(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=-1}
  %1: f32[4, 8] = affine(%0) {scale=-1 shift=0}
  %2: f32[4, 8] = mul(p, %1)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[] = exp(%3)
  %5: f32[] = affine(%3) {scale=0.25 shift=0}
  return %4, %5
}
)",
              1, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[], %1: f32[4, 2] = cross_entropy(x, p) {label_smoothing=0 reduction=sum}
  %2: f32[] = exp(%0)
  %3: f32[] = affine(%0) {scale=0.25 shift=0}
  return %2, %3
}
)");
}

// The call that spread the gradient over the elements is no longer read, and dead_code() removes
// it.
TEST(FuseCrossEntropy, WithItsGradient) {
  Program program = parse_program(R"(program(x: f32[4, 8], t: i64[4]) {
  state one: f32[]
  %0: f32[4, 8] = softmax(x) {axis=1}
  %1: f32[4, 8] = log(%0)
  %2: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  %3: f32[4, 8] = mul(%1, %2)
  %4: f32[] = sum(%3) {axes=[0, 1] keepdim=false f32_result=false}
  %5: f32[] = affine(%4) {scale=-0.25 shift=0}
  %6: f32[] = affine(%5) {scale=1024 shift=0}
  %7: f32[] = affine(one) {scale=1024 shift=0} #backward
  %8: f32[] = affine(%7) {scale=-0.25 shift=0} #backward
  %9: f32[1, 1] = reshape(%8) {shape=[1, 1]} #backward
  %10: f32[4, 8] strides=[0, 0] = expand(%9) {shape=[4, 8]} #backward
  %11: f32[4, 8] = mul(%10, %2) #backward
  %12: f32[4, 8] = div(%11, %0) #backward
  %13: f32[4, 8] = softmax_grad(%12, %0) {axis=1} #backward
  return %6, %13
}
)");
  EXPECT_EQ(fuse_cross_entropy(program), 1U);
  EXPECT_NO_THROW(verify(program));
  dead_code(program);
  EXPECT_EQ(to_text(program), R"(program(x: f32[4, 8], t: i64[4]) {
  state one: f32[]
  %0: f32[], %1: f32[4, 2] = cross_entropy(x, t) {label_smoothing=0 reduction=mean}
  %2: f32[] = affine(%0) {scale=1024 shift=0}
  %3: f32[] = affine(one) {scale=1024 shift=0} #backward
  %4: f32[4, 8] = cross_entropy_grad(%3, x, t, %1) {label_smoothing=0 reduction=mean} #backward
  return %2, %4
}
)");
}

TEST(FuseCrossEntropy, NotIfTheLogProbabilitiesAreWantedBySomebodyElse) {
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3, %0
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  host look(%0)
  return %3
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3, %1
}
)");
}

// Other readers may use values on the way to the loss, or their gradients.
TEST(FuseCrossEntropy, NotIfWhatIsBetweenIsWantedBySomebodyElse) {
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = affine(%0) {scale=-1 shift=0}
  %2: f32[4, 8] = mul(%1, p)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  return %3, %1
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = softmax(x) {axis=1}
  %1: f32[4, 8] = log(%0)
  %2: f32[4, 8] = mul(%1, p)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[] = affine(%3) {scale=-1 shift=0}
  %5: f32[4, 8] = exp(%1)
  return %4, %5
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8], g: f32[]) {
  %0: f32[4, 8] = softmax(x) {axis=1}
  %1: f32[4, 8] = log(%0)
  %2: f32[4, 8] = mul(%1, p)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[] = affine(%3) {scale=-1 shift=0}
  %5: f32[] = affine(g) {scale=-1 shift=0} #backward
  %6: f32[1, 1] = reshape(%5) {shape=[1, 1]} #backward
  %7: f32[4, 8] strides=[0, 0] = expand(%6) {shape=[4, 8]} #backward
  %8: f32[4, 8] = mul(%7, p) #backward
  %9: f32[4, 8] = div(%8, %0) #backward
  %10: f32[4, 8] = softmax_grad(%9, %0) {axis=1} #backward
  return %4, %9, %10
}
)");
}

TEST(FuseCrossEntropy, NotATargetThatIsBroadcastOrALossWithAxes) {
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[1, 1] = sum(%1) {axes=[0, 1] keepdim=true f32_result=false}
  %3: f32[1, 1] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
}

// Host work may change a state between its present reader and the fused call.
TEST(FuseCrossEntropy, NotIfHostWorkMayChangeWhatIsRead) {
  expect_no_change(kFuseCrossEntropy, R"(program(p: f32[4, 8]) {
  state x: f32[4, 8]
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  host shuffle()
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
  // Host work may change the logits, the labels or the loss's gradient before the gradient of the
  // logits.
  struct Case {
    std::string inputs;
    std::string state;
    bool is_late;  // host work after the reader of the loss's gradient
  };
  for (const auto& [inputs, state, is_late] : {Case{"t: i64[4], g: f32[]", "x: f32[4, 8]", false},
                                               Case{"x: f32[4, 8], g: f32[]", "t: i64[4]", false},
                                               Case{"x: f32[4, 8], t: i64[4]", "g: f32[]", true}}) {
    expect_no_change(kFuseCrossEntropy,
                     concat("program(", inputs, ") {\n  state ", state, R"(
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  %2: f32[4, 8] = mul(%0, %1)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[] = affine(%3) {scale=-1 shift=0}
)",
                            is_late ? "" : "  host shuffle()\n",
                            R"(  %5: f32[] = affine(g) {scale=-1 shift=0} #backward
)",
                            is_late ? "  host shuffle()\n" : "",
                            R"(  %6: f32[1, 1] = reshape(%5) {shape=[1, 1]} #backward
  %7: f32[4, 8] strides=[0, 0] = expand(%6) {shape=[4, 8]} #backward
  %8: f32[4, 8] = mul(%7, %1) #backward
  %9: f32[4, 8] = log_softmax_grad(%8, %0) {axis=1} #backward
  return %4, %9
}
)"));
  }
}

// A gradient of another value, with another factor or another target.
TEST(FuseCrossEntropy, NotIfTheGradientIsAnotherOne) {
  for (const char* of_the_product :
       {"affine(g) {scale=-0.5 shift=0}", "affine(g) {scale=-1 shift=1}", "exp(g)"}) {
    expect_no_change(kFuseCrossEntropy, concat(R"(program(x: f32[4, 8], p: f32[4, 8], g: f32[]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  %4: f32[] = )",
                                               of_the_product, R"( #backward
  %5: f32[1, 1] = reshape(%4) {shape=[1, 1]} #backward
  %6: f32[4, 8] strides=[0, 0] = expand(%5) {shape=[4, 8]} #backward
  %7: f32[4, 8] = mul(%6, p) #backward
  %8: f32[4, 8] = log_softmax_grad(%7, %0) {axis=1} #backward
  return %3, %8
}
)"));
  }
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8], g: f32[]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  %4: f32[] = affine(g) {scale=-1 shift=0} #backward
  %5: f32[1, 1] = reshape(%4) {shape=[1, 1]} #backward
  %6: f32[4, 8] strides=[0, 0] = expand(%5) {shape=[4, 8]} #backward
  %7: f32[4, 8] = mul(%6, x) #backward
  %8: f32[4, 8] = log_softmax_grad(%7, %0) {axis=1} #backward
  return %3, %8
}
)");
}

TEST(FuseCrossEntropy, NotAlongAnotherAxisIn16BitsOrWithAnotherFactor) {
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=0}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: bf16[4, 8], p: bf16[4, 8]) {
  %0: bf16[4, 8] = log_softmax(x) {axis=1}
  %1: bf16[4, 8] = mul(%0, p)
  %2: bf16[] = sum(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: bf16[] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
  expect_no_change(kFuseCrossEntropy, R"(program(x: f32[4, 8], p: f32[4, 8]) {
  %0: f32[4, 8] = log_softmax(x) {axis=1}
  %1: f32[4, 8] = mul(%0, p)
  %2: f32[] = mean(%1) {axes=[0, 1] keepdim=false f32_result=false}
  %3: f32[] = affine(%2) {scale=-1 shift=0}
  return %3
}
)");
}

// The labels may have changed when the product reads their encoding.
TEST(FuseCrossEntropy, LabelsThatHostWorkMayChangeAreReadAsTheyWere) {
  expect_pass(kFuseCrossEntropy, R"(program(x: f32[4, 8]) {
  state t: i64[4]
  %0: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  host shuffle()
  %1: f32[4, 8] = log_softmax(x) {axis=1}
  %2: f32[4, 8] = mul(%1, %0)
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[] = affine(%3) {scale=-1 shift=0}
  return %4
}
)",
              1, R"(program(x: f32[4, 8]) {
  state t: i64[4]
  %0: f32[4, 8] = one_hot(t) {classes=8 dtype=f32}
  host shuffle()
  %1: f32[], %2: f32[4, 2] = cross_entropy(x, %0) {label_smoothing=0 reduction=sum}
  return %1
}
)");
}

// The spellings of cross-entropy in the documents.
std::vector<Tensor (*)(const Tensor& logits, const Tensor& target)> spellings() {
  return {
      [](const Tensor& x, const Tensor& t) { return -mean(sum(t * log_softmax(x, 1), {1})); },
      [](const Tensor& x, const Tensor& t) { return mean(-sum(log_softmax(x, 1) * t, {1})); },
      [](const Tensor& x, const Tensor& t) { return mean(sum(t * -log_softmax(x), {1})); },
      [](const Tensor& x, const Tensor& t) { return sum(log_softmax(x, 1) * t) * (-1.0 / 6); },
      [](const Tensor& x, const Tensor& t) { return -sum(log(softmax(x, 1)) * t) / 6; },
      [](const Tensor& x, const Tensor& t) { return -sum(log_softmax(x, 1) * t); },
  };
}

PlainTraining classifier(Tensor (*loss)(const Tensor& logits, const Tensor& target),
                         std::optional<DType> dtype = std::nullopt) {
  const Tensor labels = from_values<std::int64_t>({0, 3, 2, 1, 3, 3}, {6});
  return {{{8, 4}},
          {6, 8},
          [=](std::span<const Tensor> p, const Tensor& x) {
            return loss(matmul(x, p[0]), one_hot(labels, 4));
          },
          dtype};
}

// Sums over classes are computed in another order.
TEST(FuseCrossEntropy, EverySpellingTrainsCloselyToPlainCode) {
  for (const auto spelling : spellings()) {
    expect_trains_alike(classifier(spelling), "cross_entropy_grad(", 0x1p-18);
    expect_trains_alike(classifier(spelling, DType::kBf16), "cross_entropy_grad(", 0x1p-6);
  }
}

TEST(FuseCrossEntropy, CanBeLeftOut) {
  expect_plain_without("fuse_cross_entropy", classifier(spellings()[0]), "cross_entropy");
}

}  // namespace
}  // namespace mezzo::graph
