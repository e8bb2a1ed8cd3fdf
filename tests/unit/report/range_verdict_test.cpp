// Tests what is said of the ranges of activations and weights.
#include "mezzo/report/range_verdict.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/report/page.h"
#include "tests/unit/report/support.h"

namespace mezzo::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

numbers::CallHistogram counted_call(const std::string& path, const std::string& op,
                                    const std::vector<float>& values, DType dtype = DType::kF32) {
  numbers::CallHistogram call{.id = {.path = path, .op = op}, .dtype = dtype};
  call.exponents = histogram_of(call.id.text(), values);
  return call;
}

std::vector<std::string> sentences_of(const RunData& run) {
  std::vector<std::string> sentences;
  add_range_sentences(run, sentences);
  return sentences;
}

RunData run_of(std::vector<numbers::CallHistogram> calls, DType dtype = DType::kF32) {
  RunData run = example_run(60);
  run.dtype = dtype;
  run.activations = std::move(calls);
  run.counted_forward_passes = 2;
  return run;
}

TEST(RangeVerdict, WithoutCountsNothingIsSaid) {
  EXPECT_TRUE(sentences_of(example_run(3)).empty());
}

TEST(RangeVerdict, WhatFitsMayBeLowered) {
  EXPECT_THAT(
      sentences_of(
          run_of({counted_call("fc1", "linear", {1, 2, 0}), counted_call("fc2", "linear", {3})})),
      ElementsAre(
          "f16 can hold the results of all 2 calls: none is infinite, and at most 1 % of "
          "what they add up to is lost at the lower end of its range. They may be lowered "
          "to f16.",
          "bf16 can hold the results of all 2 calls: they may be lowered to it.",
          "Outlook on eight bits, of 2 calls: e4m3 could hold the results of 2 as they are "
          "and of 2 with a scale of their own; e5m2 could hold the results of 2 as they are "
          "and of 2 with a scale of their own. This is about their ranges, not about the "
          "few bits of their fractions."));
}

TEST(RangeVerdict, BeforeTheSwitchCallsAreNamedWithTheirReason) {
  const auto sentences = sentences_of(
      run_of({counted_call("fc1", "linear", {1, 2}), counted_call("branch", "mul", {1e-7F, 3e-8F}),
              counted_call("", "exp", {1, 1e5F})}));
  EXPECT_THAT(sentences, Contains("f16 could not hold the results of 2 of 3 calls, as counted in 2 "
                                  "of 60 steps."));
  EXPECT_THAT(
      sentences,
      Contains(testing::AllOf(testing::StartsWith("branch: mul: the numbers lie between 2⁻²⁵ and "
                                                  "2⁻²³, where f16 keeps few bits or none: none "
                                                  "would become zero and all subnormal"))));
  EXPECT_THAT(sentences, Contains("exp: the numbers reach 2¹⁶ and more, where f16 ends at 65504: "
                                  "50.0 % would be infinite."));
  EXPECT_THAT(sentences, Contains(HasSubstr("has to keep in f32: --keep-f32 branch,exp. ")));
  EXPECT_THAT(sentences, Contains(HasSubstr("f16 can hold the results of the other 1 call")));
}

TEST(RangeVerdict, AfterTheSwitchWhatWasLostAndWhatIsRightlyKept) {
  const float infinity = std::numeric_limits<float>::infinity();
  numbers::CallHistogram vanished = counted_call("tiny", "mul", {0, 0}, DType::kF16);
  vanished.vanished = 1;
  const auto sentences = sentences_of(run_of(
      {counted_call("big", "linear", {1, infinity}, DType::kF16),
       counted_call("branch", "mul", {0x1p-24F, 0x1p-23F, 0}, DType::kF16), vanished,
       counted_call("off", "relu", {0, 0}, DType::kF16), counted_call("kept", "exp", {1e6F})},
      DType::kF16));
  EXPECT_THAT(sentences, Contains(HasSubstr("f16 spoils the results of 3 of 5 calls")));
  EXPECT_THAT(sentences, Contains("big: linear: 1 of 2 numbers are infinite: beyond 65504, unless "
                                  "they are a mask's."));
  EXPECT_THAT(sentences, Contains(testing::AllOf(testing::StartsWith("branch: mul: "),
                                                 HasSubstr("all of those that are not zero are "
                                                           "subnormal"))));
  EXPECT_THAT(sentences, Contains(testing::StartsWith("tiny: mul: all numbers are zero")));
  EXPECT_THAT(sentences, Not(Contains(testing::StartsWith("off: relu"))));
  EXPECT_THAT(sentences, Contains(HasSubstr("Keep in f32: --keep-f32 big,branch,tiny. ")));
  EXPECT_THAT(sentences,
              Contains("This run rightly keeps the results of 1 of 5 calls in f32, since "
                       "f16 could not hold them."));
}

TEST(RangeVerdict, ACastIsNamedOnlyIfNothingElseIs) {
  const auto cast = counted_call("fc", "cast", {0x1p-24F}, DType::kF16);
  EXPECT_THAT(sentences_of(run_of({cast}, DType::kF16)),
              Contains(testing::StartsWith("fc: cast: the numbers lie")));
  const auto sentences = sentences_of(
      run_of({cast, counted_call("fc", "linear", {0x1p-24F}, DType::kF16)}, DType::kF16));
  EXPECT_THAT(sentences, Not(Contains(testing::StartsWith("fc: cast"))));
  EXPECT_THAT(sentences, Contains(HasSubstr("f16 spoils the results of 1 of 2 calls")));
}

TEST(RangeVerdict, OfManyCallsTheFirstAreNamed) {
  std::vector<numbers::CallHistogram> calls;
  for (int i = 0; i < 7; ++i)
    calls.push_back(counted_call("fc" + std::to_string(i), "linear", {1e6F}));
  const auto sentences = sentences_of(run_of(std::move(calls)));
  EXPECT_THAT(sentences, Contains(testing::StartsWith("fc3: linear")));
  EXPECT_THAT(sentences, Not(Contains(testing::StartsWith("fc4: linear"))));
  EXPECT_THAT(sentences, Contains("So it is with 3 more, which the tables below show."));
}

TEST(RangeVerdict, WeightsThatF16CannotHold) {
  RunData run = run_of({counted_call("fc", "linear", {1})});
  run.weights = {histogram_of("fc.weight", {1e5F, 1}), histogram_of("fc.bias", {1})};
  const auto sentences = sentences_of(run);
  EXPECT_THAT(sentences, Contains("f16 cannot hold 1 of 2 weights and buffers."));
  EXPECT_THAT(sentences, Contains(testing::StartsWith("fc.weight: the numbers reach 2¹⁶")));
  EXPECT_THAT(sentences,
              Contains("What reads them belongs in f32, where norms are anyway: --keep-f32 fc."));
  run.weights.erase(run.weights.begin());
  EXPECT_THAT(sentences_of(run), Contains("f16 can hold all weights and buffers."));
}

TEST(RangeVerdict, ThePageShowsCallsAndWeights) {
  RunData run = run_of({counted_call("fc", "linear", {1, 1e6F})});
  run.weights = {histogram_of("fc.weight", {1})};
  const std::string page = to_html({.title = "t", .runs = {run}});
  EXPECT_THAT(page, HasSubstr("id=\"activations\""));
  EXPECT_THAT(page, HasSubstr("id=\"weights\""));
  EXPECT_THAT(page, HasSubstr("fc: linear"));
  EXPECT_THAT(page, HasSubstr("50.0 % / none / none (keep)"));
}

}  // namespace
}  // namespace mezzo::report
