// Tests that two runs of a step are compared call by call: equal runs, planted faults, and what the
// dtypes explain.
#include "mezzo/numbers/compare.h"

#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/numbers/compared_models.h"
#include "tests/unit/small_models.h"

namespace mezzo::numbers {
namespace {

using testing::HasSubstr;

// Adds to the first element of the first result of one call, as a wrong kernel would.
struct Planter final : amp::StepObserver {
  Planter(std::string call_text, double by) : text(std::move(call_text)), amount(by) {}
  bool begin_step(double) override { return true; }
  void on_call(const amp::ObservedStepCall& call) override {
    if (call.results[0].call.text() != text) return;
    const Tensor& output = call.outputs[0];
    ASSERT_EQ(output.dtype(), DType::kF32);
    *static_cast<float*>(output.address()) += static_cast<float>(amount);
    ++planted;
  }
  std::string text;
  double amount;
  int planted = 0;
};

class EqualRuns : public testing::TestWithParam<std::tuple<std::string, amp::Policy, bool>> {};

TEST_P(EqualRuns, AreEqualBitForBit) {
  const auto& [model, policy, is_captured] = GetParam();
  const StepSettings settings{.policy = policy, .is_captured = is_captured};
  const Comparison found = compare_settings(model, settings, settings);
  EXPECT_TRUE(found.is_equal()) << all_lines(found);
  EXPECT_FALSE(found.first_difference.has_value());
  EXPECT_FALSE(found.first_jump.has_value()) << all_lines(found);
  EXPECT_GT(found.results.size(), 5);
  EXPECT_GE(found.gradients.size(), 4);
  EXPECT_THAT(found.lines()[0], testing::StartsWith("equal bit for bit: all"));
}

INSTANTIATE_TEST_SUITE_P(All, EqualRuns,
                         testing::Combine(testing::Values("lenet5", "mlp"),
                                          testing::Values(kAllF32, kO2Bf16, kO2F16),
                                          testing::Bool()),
                         [](const auto& instance) {
                           return test::identifier_of(std::get<0>(instance.param)) + "_" +
                                  name_of(std::get<1>(instance.param).dtype()) +
                                  (std::get<2>(instance.param) ? "_captured" : "_eager");
                         });

// A captured step computes what an eager one does; results that no kernel writes are not heard of.
TEST(Compare, EagerAndCapturedAreEqual) {
  for (const char* const model : {"lenet5", "resnet20", "gpt-tiny"}) {
    for (const amp::Policy& policy : {kAllF32, kO2Bf16}) {
      const Comparison found =
          compare_settings(model, {.policy = policy}, {.policy = policy, .is_captured = true});
      EXPECT_FALSE(found.first_difference.has_value()) << model << "\n" << all_lines(found);
      EXPECT_GT(found.results.size(), 5);
      EXPECT_FALSE(found.first_jump.has_value()) << model << "\n" << all_lines(found);
      for (const ComparedTensor& gradient : found.gradients) {
        EXPECT_TRUE(gradient.difference.is_equal()) << model << " " << gradient.name;
      }
    }
  }
}

// No network that works is accused.
class SaneNetwork : public testing::TestWithParam<std::tuple<std::string, amp::Policy, bool>> {};

TEST_P(SaneNetwork, IsWithinWhatItsDtypesExplain) {
  const auto& [model, policy, is_captured] = GetParam();
  const double scale = policy.lower == DType::kF16 && policy.dtype() == DType::kF16 ? 1024 : 0;
  const Comparison found = compare_settings(
      model, {.policy = kAllF32}, {.policy = policy, .is_captured = is_captured, .scale = scale});
  EXPECT_TRUE(found.first_difference.has_value());
  EXPECT_GT(found.measured, 5);
  EXPECT_FALSE(found.first_jump.has_value()) << all_lines(found);
  EXPECT_FALSE(found.is_equal());
}

INSTANTIATE_TEST_SUITE_P(All, SaneNetwork,
                         testing::Combine(testing::Values("lenet5", "resnet20", "gpt-tiny"),
                                          testing::Values(kO2Bf16, kO2F16), testing::Bool()),
                         [](const auto& instance) {
                           return test::identifier_of(std::get<0>(instance.param)) + "_" +
                                  name_of(std::get<1>(instance.param).dtype()) +
                                  (std::get<2>(instance.param) ? "_captured" : "_eager");
                         });

TEST(Compare, F32IsWithinWhatItExplainsOfF64) {
  for (const char* const model : {"lenet5", "mlp"}) {
    const Comparison found = compare_with_f64(model, {.policy = kAllF32});
    EXPECT_GT(found.measured, 5);
    EXPECT_FALSE(found.first_jump.has_value()) << model << "\n" << all_lines(found);
    const auto worst = found.largest(false);
    ASSERT_TRUE(worst.has_value());
    EXPECT_LT(found.results[*worst].error, 1e-4) << all_lines(found);
    EXPECT_GE(found.gradients.size(), 4);
  }
}

// One element of one result is off by 2^-8.
TEST(Compare, NamesAPlantedWrongKernel) {
  for (const char* const call :
       {"conv2: conv2d", "fc1: linear", "conv2: conv2d_grad_weight, backward of conv2d"}) {
    Planter planter(call, 0x1p-8);
    const Comparison found =
        compare_settings("lenet5", {.policy = kAllF32}, {.policy = kAllF32, .before = {&planter}});
    EXPECT_EQ(planter.planted, 1) << call << "\n" << all_lines(found);
    ASSERT_TRUE(found.first_same_inputs.has_value()) << call;
    const ComparedResult& first = found.results[*found.first_same_inputs];
    EXPECT_EQ(first.id.call.text(), call);
    EXPECT_EQ(first.reason, Reason::kSameInputs);
    EXPECT_EQ(first.difference.differing, 1);
    EXPECT_EQ(first.difference.first_at, 0);
    EXPECT_EQ(found.first_difference, found.first_same_inputs);
    EXPECT_THAT(all_lines(found), HasSubstr(std::string("first difference: ") + call));
    EXPECT_THAT(all_lines(found), HasSubstr("1 of "));
  }
}

// Against an f64 shadow every result differs; the call that is wrong stands out by its own error.
TEST(Compare, FindsAPlantedWrongKernelAgainstF64) {
  Planter planter("conv2: conv2d", 0x1p-8);
  const Comparison found = compare_with_f64("lenet5", {.policy = kAllF32, .before = {&planter}});
  ASSERT_TRUE(found.first_jump.has_value()) << all_lines(found);
  EXPECT_EQ(found.results[*found.first_jump].id.call.text(), "conv2: conv2d");
  EXPECT_THAT(all_lines(found), HasSubstr("first beyond its dtypes: conv2: conv2d"));
}

TEST(Compare, GradientsAreComparedWithoutTheirScale) {
  const Comparison found =
      compare_settings("lenet5", {.policy = kAllF32}, {.policy = kAllF32, .scale = 4096});
  EXPECT_EQ(found.b.scale, 4096);
  EXPECT_FALSE(found.first_difference.has_value()) << all_lines(found);
  for (const ComparedTensor& gradient : found.gradients) EXPECT_EQ(gradient.error, 0);
}

TEST(Compare, TellsOtherWeightsFromOtherKernels) {
  const Comparison found = compare_settings("lenet5", {}, {.seed = 4});
  EXPECT_FALSE(found.first_same_inputs.has_value()) << all_lines(found);
  EXPECT_THAT(all_lines(found), HasSubstr("before the step, conv1.weight differs already"));
}

TEST(Compare, MicroBatchesAreCompared) {
  const StepSettings settings{.micro_batches = 2};
  EXPECT_TRUE(compare_settings("lenet5", settings, settings).is_equal());
}

TEST(Compare, AFunctionThatMakesNoStepIsAnError) {
  Subject subject("lenet5");
  const StepRun idle{.net = *subject.net, .make = [](amp::StepObserver&) {}};
  EXPECT_THROW(compare_runs(idle, idle), ArgumentError);
}

}  // namespace
}  // namespace mezzo::numbers
