// Tests the page of a tuned network.
#include "mezzo/report/tune_page.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/dispatcher/registry.h"
#include "tests/unit/report/markup.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;
using tune::ProvedSetting;
using tune::TuneResult;

ProvedSetting setting_with(const std::string& name, double ms, double error) {
  ProvedSetting setting{.name = name, .ms = ms, .losses = {2.5, 2.25}};
  setting.error.total = setting.predicted_error = error;
  setting.plan.rows = {{.module = "a.<b>", .op = "conv2d", .dtype = DType::kBf16}};
  return setting;
}

TuneResult tuned() {
  TuneResult result{.error_budget = 0.02, .budget_from = "that of auto/bf16", .exact = "f64"};
  result.settings = {setting_with("O0", 20, 0), setting_with("O2/f16", 15, 0.01),
                     setting_with("plan", 10, 0.01)};
  result.settings[1].error.not_finite = 0.5;
  result.settings[1].error.total = std::numeric_limits<double>::infinity();
  result.settings[2].is_plan = true;
  tune::find_pareto_front(result.settings);
  for (ProvedSetting& setting : result.settings) setting.is_within = setting.error.is_finite();
  result.chosen = 2;
  result.plan = result.settings[2].plan;
  result.plan.model = "net <1>";
  tune::MeasuredOperation operation{.operation = {.module = "a.<b>", .op = find_op("conv2d")}};
  operation.choices = {{.choice = {DType::kF32}, .ms = 3}, {.choice = {DType::kBf16}, .ms = 2}};
  operation.chosen = 1;
  operation.reason = "saves 1 of 3 ms";
  result.operations = {operation};
  result.noise = {"a.<b>.bias"};
  return result;
}

TEST(TunePage, IsWellFormedAndShowsThePlanAndItsProofs) {
  const std::string html = tune_page(tuned());
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_FALSE(has_bad_coordinates(html));
  for (const char* part : {"The precision plan of net &lt;1&gt;", "a.&lt;b&gt;: conv2d",
                           "gradients are not finite", "that of auto/bf16", "saves 1 of 3 ms",
                           "on the Pareto front", "rounding noise", "against f64"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(TunePage, ASettingThatIsBeatenIsNotOnTheFront) {
  TuneResult result = tuned();
  result.settings.push_back(setting_with("slower and worse", 11, 0.011));
  tune::find_pareto_front(result.settings);
  EXPECT_TRUE(result.settings[0].is_best);   // exact
  EXPECT_FALSE(result.settings[1].is_best);  // not finite
  EXPECT_TRUE(result.settings[2].is_best);
  EXPECT_FALSE(result.settings[3].is_best);
  EXPECT_EQ(markup_fault(tune_page(result)), "");
}

}  // namespace
}  // namespace mezzo::report
