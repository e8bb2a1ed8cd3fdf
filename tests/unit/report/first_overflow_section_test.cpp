// Tests what a page says of skipped steps that were looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/report/sections/sections.h"
#include "tests/unit/report/markup.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;

numbers::TracedStepCall call_of(const char* path, const char* op, double high) {
  return {.id = {.path = path, .op = op},
          .outputs = {{.dtype = DType::kF16,
                       .shape = "[2, 3]",
                       .range = {.count = 6, .infinities = high > 65504 ? 2 : 0, .high = high}}}};
}

TEST(FirstOverflowSection, NamesTheCallAndWhatLedToIt) {
  RunData run;
  EXPECT_TRUE(first_overflow_section(run).parts.empty());
  const numbers::TracedStepCall bad = call_of("branch<1>", "exp", 7e4);
  run.first_overflows.push_back(
      {.step = 7,
       .call = bad.id,
       .index = 11,
       .calls = 40,
       .cause = {.what = "2 of 6 are infinite in f16", .advice = "Keep it in f32"},
       .chain = {call_of("fc", "linear", 12), bad}});
  run.first_overflows.push_back({.step = 9});
  const Section section = first_overflow_section(run);
  ASSERT_EQ(section.parts.size(), 2);
  EXPECT_EQ(section.parts[0].title, "Step 7: branch<1>: exp");
  EXPECT_THAT(section.parts[0].html, HasSubstr("call 12 of 40 of step 7"));
  EXPECT_THAT(section.parts[0].html, HasSubstr("fc: linear"));
  EXPECT_THAT(section.parts[0].html, HasSubstr("2 of 6 are infinite"));
  EXPECT_EQ(section.parts[1].title, "Step 9: no call");
  EXPECT_THAT(section.parts[1].html, HasSubstr("over processes"));
  EXPECT_EQ(markup_fault(to_html(section, {})), "");
}

}  // namespace
}  // namespace mezzo::report
