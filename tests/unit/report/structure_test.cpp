#include "tests/unit/report/structure.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/report/page.h"
#include "mezzo/report/palette.h"
#include "tests/unit/report/support.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Structure, OfOneRun) { expect_usable(to_html({.title = "t", .runs = {large_run(300, 20)}})); }

TEST(Structure, OfSeveralRuns) {
  const std::string html =
      to_html({.title = "t", .runs = {large_run(30, 4), large_run(30, 60), example_run(3)}});
  expect_usable(html);
  EXPECT_THAT(html, HasSubstr("<a href=\"#run-2-training\">Training</a>"));
}

TEST(Structure, OfNothing) {
  expect_usable(to_html(Report{}));
  expect_usable(to_html({.title = "t", .runs = {RunData()}}));
}

TEST(Structure, APageOfALongRunOfALargeNetworkStaysSmall) {
  const std::string html = to_html({.title = "t", .runs = {large_run(100'000, 400)}});
  expect_usable(html);
  EXPECT_LT(html.size(), 1'000'000U);
  EXPECT_THAT(html, HasSubstr("<summary>The precision of every call: 400 rows</summary>"));
}

TEST(Structure, TheTopHasTheNumbersThatMatter) {
  RunData run = large_run(300, 4);
  const std::string html = to_html({.title = "t", .runs = {run}});
  for (const char* figure :
       {"<dt>Model</dt><dd>resnet50</dd>", "<dt>Precision</dt><dd>O2/f16<small>with loss scaling",
        "<dt>Test accuracy</dt><dd>92.50\u00a0%", "<dt>Test loss</dt><dd>0.25",
        "<dt>Step time</dt><dd>12 ms", "<dt>Skipped steps</dt><dd>3<small>of 300",
        "<dt>Peak memory</dt><dd>812.4 MiB"}) {
    EXPECT_THAT(html, HasSubstr(figure));
  }
  run.epochs.clear();
  EXPECT_THAT(to_html({.title = "t", .runs = {run}}), HasSubstr("<dt>Training loss</dt>"));
}

TEST(Structure, APageOfARunThatGoesOnSaysSo) {
  Report report{.title = "lenet5", .runs = {example_run(30)}};
  report.runs[0].total_steps = 120;
  report.runs[0].is_running = true;
  const std::string running = to_html(report);
  expect_usable(running);
  EXPECT_THAT(running, HasSubstr("<meta http-equiv=\"refresh\" content=\"5\"/>"));
  EXPECT_THAT(running, HasSubstr("<p class=\"status running\">Running: step 30 of 120."));
  EXPECT_THAT(running, HasSubstr("<title>25 % · lenet5</title>"));
  EXPECT_THAT(running, HasSubstr("So far, the run did 30 steps"));
  report.runs[0].is_running = false;
  const std::string ended = to_html(report);
  EXPECT_THAT(ended, Not(HasSubstr("http-equiv")));
  EXPECT_THAT(ended, HasSubstr("<p class=\"status\">Ended after step 30 of 120.</p>"));
  report.runs[0].total_steps = 30;
  EXPECT_THAT(to_html(report), HasSubstr("Finished after 30 steps."));
}

TEST(Structure, APageOfAComparisonThatGoesOnSaysWhichRun) {
  Report report{.title = "c", .runs = {example_run(60), example_run(30)}, .total_runs = 4};
  report.runs[1].total_steps = 60;
  report.runs[1].is_running = true;
  const std::string running = to_html(report);
  EXPECT_THAT(running, HasSubstr("Running: run 2 of 4, step 30 of 60."));
  EXPECT_THAT(running, HasSubstr("<title>37 % · c</title>"));
  report.runs[1].is_running = false;
  EXPECT_THAT(to_html(report), HasSubstr("Ended after run 2 of 4, step 30 of 60."));
  report.total_runs = 2;
  report.runs[1].total_steps = 30;
  EXPECT_THAT(to_html(report), HasSubstr("Finished: 2 runs."));
}

// The relative luminance of `#rrggbb`, as the Web Content Accessibility Guidelines 2 define it.
double luminance_of(const std::string& colour) {
  constexpr std::array kWeights{0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double c =
        static_cast<double>(std::strtol(colour.substr(1 + 2 * i, 2).c_str(), nullptr, 16)) / 255;
    sum += kWeights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast_of(const std::string& a, const std::string& b) {
  const double one = luminance_of(a);
  const double other = luminance_of(b);
  return (std::max(one, other) + 0.05) / (std::min(one, other) + 0.05);
}

TEST(Palette, LettersHaveContrast) {
  EXPECT_NEAR(contrast_of("#000000", "#ffffff"), 21, 1e-9);
  const std::vector<std::string> schemes = groups_of(kPalette, ":root \\{([^}]*)\\}");
  ASSERT_EQ(schemes.size(), 3U);  // light, dark, print
  for (const std::string& scheme : schemes) {
    const auto colour = [&](const std::string& name) {
      return groups_of(scheme, "--" + name + ": (#[0-9a-f]{6});").at(0);
    };
    for (const char* ground : {"ground", "card"}) {
      for (const char* letters : {"text", "soft", "accent", "running"}) {
        EXPECT_GE(contrast_of(colour(letters), colour(ground)), 4.5) << letters << scheme;
      }
      for (const char* shape :
           {"c0", "c1", "c2", "c3", "c4", "c5", "kept", "weak", "lost", "over"}) {
        EXPECT_GE(contrast_of(colour(shape), colour(ground)), 3) << shape << scheme;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::report
