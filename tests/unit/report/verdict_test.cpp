#include "mezzo/report/verdict.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/report/support.h"

namespace mezzo::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Verdict, SaysOnlyWhatTheDataSays) {
  EXPECT_THAT(verdict({}), testing::IsEmpty());
  EXPECT_THAT(verdict(example_run(20)),
              ElementsAre("The run did 20 steps in 1 epoch and ended with a test accuracy of "
                          "92.50 % and a test loss of 0.25.",
                          "No step was skipped."));
}

TEST(Verdict, NamesTheFirstSkippedStepAndItsCulprit) {
  RunData run = example_run(400, 65536);
  run.steps[16].skipped = true;
  run.steps[16].culprit = "conv1.weight";
  EXPECT_THAT(verdict(run),
              Contains("1 step of 400 was skipped. In the first of them, step 17, the "
                       "gradient of conv1.weight was not finite at scale 2¹⁶."));
  run.steps[16].nonfinite_loss = true;
  EXPECT_THAT(verdict(run), Contains(HasSubstr("step 17, the loss was not finite")));
  run.steps[20].skipped = true;
  EXPECT_THAT(verdict(run), Contains(HasSubstr("2 steps of 400 were skipped")));
}

TEST(Verdict, SaysWhatF16LosesAndWhichScaleLosesNothing) {
  RunData run = example_run(5);
  run.gradients = {histogram_of("conv.weight", {0x1p-28F, 0x1p-3F, 0x1p-4F, 0x1p-5F}),
                   histogram_of("fc.weight", {0x1p-6F, 0x1p-7F, 0x1p-8F, 0x1p-9F, 0, 0})};
  run.counted_steps = 1;
  // The largest is 2^-3; with a margin for values 4 times as large, 2^16 still fits.
  EXPECT_EQ(shown_shift(run), 16);
  const auto sentences = verdict(run);
  EXPECT_THAT(
      sentences,
      Contains(
          "Exactly zero: 20.0 % of the parameter gradients; the following is about the others."));
  EXPECT_THAT(sentences, Contains("A run in f16 would need loss scaling: without it, f16 would "
                                  "lose 12.5 % of the parameter gradients to zero and keep none "
                                  "in fewer bits, as counted in 1 of 5 steps."));
  EXPECT_THAT(sentences, Contains("With the scale 2¹⁶, f16 would lose none of the parameter "
                                  "gradients to zero."));
  EXPECT_THAT(sentences, Contains("Most affected by f16 without scaling: conv.weight (25.0 %)."));
  EXPECT_THAT(sentences, Contains("bf16 has the range of f32: it loses none of them and needs no "
                                  "loss scaling."));
}

TEST(Verdict, GradientsOfWhichNoneIsFiniteAreSaid) {
  RunData run = example_run(1);
  const float infinity = std::numeric_limits<float>::infinity();
  run.gradients = {histogram_of("conv.weight", {infinity, 0, -infinity})};
  run.counted_steps = 1;
  EXPECT_THAT(verdict(run), Contains("All parameter gradients that are not zero were infinite or "
                                     "NaN: 2 of 3."));
}

TEST(Verdict, TheScaleOfTheRunIsShownIfItHadOne) {
  RunData run = example_run(5, 1024);
  run.dtype = DType::kF16;
  run.gradients = {histogram_of("w", {0x1p-28F, 0x1p-3F})};
  EXPECT_EQ(shown_shift(run), 10);
  run.steps.front().scale = 65536;  // the scale at the end counts
  EXPECT_EQ(shown_shift(run), 10);
  const auto sentences = verdict(run);
  EXPECT_THAT(sentences, Contains(HasSubstr("With the scale 2¹⁰")));
  EXPECT_THAT(sentences, Contains(HasSubstr("four times as large is 2¹⁶")));
  EXPECT_THAT(sentences, Contains(HasSubstr("those that it lost")));
  run.dtype = DType::kBf16;
  EXPECT_THAT(verdict(run), Not(Contains(HasSubstr("those that it lost"))));
}

// The effect of scaling, from none to essential, in a run of each kind.
TEST(Verdict, SaysWhetherTheLossHadToBeScaled) {
  std::vector<float> many(999, 1);
  many.push_back(0x1p-28F);
  const struct {
    std::vector<float> gradients;
    const char* scaled;
    const char* unscaled;
    const char* of_bf16;
  } cases[] = {
      {{1, 0x1p-14F},
       "Loss scaling was not needed",
       "No loss scaling was needed",
       "A run in f16 would need no loss scaling"},
      {many, "Loss scaling was hardly needed", "Loss scaling would hardly have helped",
       "A run in f16 would hardly need loss scaling"},
      {{1, 0x1p-20F},
       "Loss scaling helped",
       "Loss scaling would have helped",
       "Loss scaling would help a run in f16"},
      {{1, 0x1p-28F},
       "Loss scaling was needed",
       "Loss scaling would have been needed",
       "A run in f16 would need loss scaling"},
  };
  for (const auto& [gradients, scaled, unscaled, of_bf16] : cases) {
    RunData run = example_run(20, 1024);
    run.gradients = {histogram_of("w", gradients)};
    run.counted_steps = 2;
    run.dtype = DType::kF16;
    EXPECT_THAT(verdict(run), Contains(HasSubstr(scaled)));
    EXPECT_THAT(verdict(run), Contains(HasSubstr("f16 would have lost")));
    run.is_scaled = false;
    EXPECT_THAT(verdict(run), Contains(HasSubstr(unscaled)));
    run.dtype = DType::kBf16;
    EXPECT_THAT(verdict(run), Contains(HasSubstr(of_bf16)));
    EXPECT_THAT(verdict(run), Contains(HasSubstr("as counted in 2 of 20 steps.")));
  }
}

TEST(Verdict, NamesTheStepsThatItsPartsAreOf) {
  RunData run = example_run(3);
  run.counted_steps = 1;
  EXPECT_EQ(counted_text(run), "1 of 3 steps");
  run.counted_steps = 3;
  EXPECT_EQ(counted_text(run), "3 steps");
}

TEST(Verdict, ActivationGradientsLimitTheScaleToo) {
  RunData run = example_run(5);
  run.gradients = {histogram_of("w", {0x1p-3F})};
  run.activation_gradients = {histogram_of("conv", {0x1p2F, 0x1p-26F})};
  EXPECT_EQ(shown_shift(run), 11);
  EXPECT_THAT(verdict(run),
              Contains(HasSubstr("without it, f16 would lose none of the parameter gradients and "
                                 "50.0 % of the activation gradients to zero and keep none and "
                                 "none in fewer bits")));
}

TEST(Verdict, OverflowAndDivergenceAreSaid) {
  RunData run = example_run(5, 0x1p24);
  run.gradients = {histogram_of("w", {1, 0x1p-10F})};
  EXPECT_THAT(verdict(run), Contains(HasSubstr("and 50.0 % would overflow")));
  run.steps[2].loss = std::nan("");
  run.steps[3].loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(verdict(run), Contains(HasSubstr("not finite in step 3 (nan)")));
}

TEST(Verdict, Bf16LosesWhatIsBelowF32) {
  RunData run = example_run(1);
  run.gradients = {histogram_of("w", {1, 0x1p-130F})};
  EXPECT_THAT(verdict(run), Contains(HasSubstr("it would still lose 50.0 % of them")));
}

TEST(Verdict, Bf16LosesWhatIsBelowF32InEitherKindOfGradients) {
  RunData run = example_run(1);
  run.gradients = {histogram_of("w", {1, 0x1p-130F})};
  run.activation_gradients = {histogram_of("conv", {1, 1})};
  EXPECT_THAT(verdict(run), Contains(HasSubstr("it would still lose 25.0 % of them")));
}

TEST(Verdict, TheLargestOfF32AreBeyondBf16) {
  RunData run = example_run(1);
  run.gradients = {histogram_of("w", {1, std::numeric_limits<float>::max()})};
  const double overflowing = run.gradients[0].overflowing_in(DType::kBf16);
  ASSERT_GT(overflowing, 0);
  EXPECT_THAT(verdict(run), Contains(HasSubstr("bf16 has the range of f32; it would")));
}

TEST(Verdict, TheMostAffectedComesFirst) {
  RunData run = example_run(1);
  run.gradients = {histogram_of("a", {1, 1, 1, 0x1p-28F}), histogram_of("b", {1, 0x1p-28F})};
  EXPECT_THAT(verdict(run), Contains("Most affected by f16 without scaling: b (50.0 %), "
                                     "a (25.0 %)."));
}

}  // namespace
}  // namespace mezzo::report
