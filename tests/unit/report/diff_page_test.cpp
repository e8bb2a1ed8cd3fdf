// Tests the page of a comparison.
#include "mezzo/report/diff_page.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/report/diff_chart.h"
#include "tests/unit/report/markup.h"

namespace mezzo::report {
namespace {

using numbers::ComparedResult;
using numbers::Comparison;
using numbers::Reason;
using testing::HasSubstr;
using testing::Not;

ComparedResult result(const std::string& path, const std::string& op, double error,
                      const std::string& gradient_of = "") {
  ComparedResult compared{.id = {.call = {.path = path, .op = op, .gradient_of = gradient_of}},
                          .shape = {2, 3}};
  compared.difference = {.count = 6,
                         .differing = error > 0 ? 3 : 0,
                         .norm = 1,
                         .distance = error,
                         .largest = error,
                         .largest_value = 1};
  compared.error = error;
  compared.reason = error > 0 ? Reason::kPrecision : Reason::kEqual;
  compared.dtype_b = error > 0 ? DType::kBf16 : DType::kF32;
  return compared;
}

Comparison example() {
  Comparison found;
  found.a = {.title = "net <O0>", .machine = "cpu & co", .threads = 2, .loss = 1};
  found.b = {.title = "net O2", .scale = 1024, .loss = std::numeric_limits<double>::quiet_NaN()};
  found.results = {result("a.<b>", "conv2d", 0), result("c", "linear", 1e-3),
                   result("c", "linear_grad", std::numeric_limits<double>::infinity(), "linear"),
                   result("", "sum", 1e-12)};
  found.results[1].own = {true, 2e-3, 1e-2, 1e-3};
  found.results[1].is_jump = true;
  found.first_difference = 1;
  found.first_jump = 1;
  found.gradients = {
      {.name = "c.<weight>", .difference = {.count = 3, .differing = 1}, .error = 1}};
  found.not_compared = {{{.call = {.path = "c", .op = "cast"}}, "only in B"}};
  return found;
}

TEST(DiffPage, IsWellFormedAndNamesWhatWasFound) {
  const std::string html = diff_page(example());
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_FALSE(has_bad_coordinates(html));
  EXPECT_THAT(html, HasSubstr("first beyond its dtypes: c: linear"));
  EXPECT_THAT(html, HasSubstr("net &lt;O0&gt;"));
  EXPECT_THAT(html, HasSubstr("Beyond their dtypes"));
  EXPECT_THAT(html, HasSubstr("c.&lt;weight&gt;"));
  EXPECT_THAT(html, HasSubstr("only in B"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST(DiffPage, OfEqualRunsShowsNoFault) {
  Comparison found = example();
  found.results = {result("a", "conv2d", 0)};
  found.first_difference.reset();
  found.first_jump.reset();
  found.gradients.clear();
  found.not_compared.clear();
  const std::string html = diff_page(found);
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_THAT(html, HasSubstr("equal bit for bit: all 1 results"));
  EXPECT_THAT(html, Not(HasSubstr("Beyond their dtypes")));
}

TEST(DiffChart, IsDrawnForWideAndForNarrowScreens) {
  const std::string html = diff_chart(example());
  EXPECT_THAT(html, HasSubstr("class=\"across\""));
  EXPECT_THAT(html, HasSubstr("class=\"down\""));
  EXPECT_THAT(html, HasSubstr("<title>c: linear: relative error 0.001"));
  EXPECT_EQ(diff_chart({}), "");
}

}  // namespace
}  // namespace mezzo::report
