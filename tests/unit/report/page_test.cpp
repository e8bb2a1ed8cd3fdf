#include "mezzo/report/page.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/report/markup.h"
#include "tests/unit/report/support.h"

namespace mezzo::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A run with everything that a page can show.
RunData full_run() {
  RunData run = example_run(60, 65536);
  run.configuration = {{"model", "lenet5"}, {"data", "<mnist>:\"x\" & 'y'"}};
  run.dtype = DType::kF16;
  run.steps[3].skipped = true;
  run.steps[3].culprit = "conv1.<weight>";
  run.steps[5].loss = std::nan("");
  run.epochs.push_back({.epoch = 2, .train_loss = 0.1, .test_loss = 0.2, .accuracy = 0.95});
  run.gradients = {histogram_of("conv1.<weight>", {1, 0x1p-30F, 0}), histogram_of("b", {})};
  run.activation_gradients = {histogram_of("conv1", {1, 0x1p-12F})};
  run.counted_steps = 2;
  run.first_batch = {
      {.png = {std::byte{0xff}}, .width = 28, .height = 14, .label = "<cat> & \"dog\""},
      {.png = {}, .width = 1, .height = 1, .label = "7"}};
  run.batch_size = 64;
  run.plan = {.header = {"path", "op", "dtype", "rule", "casts", "why"},
              .rows = {{"conv1", "conv2d", "f16", "lower", "2", "1"}}};
  run.reasons = {.header = {"why", "reason"}, .rows = {{"1", "gains & <more>"}}};
  return run;
}

TEST(Markup, TheCheckerFindsFaults) {
  EXPECT_EQ(markup_fault("<!DOCTYPE html><p>a<b>c</b><br/></p>"), "");
  for (const char* wrong :
       {"<p>a", "a</p>", "<p><b></p></b>", "<p>a > b</p>", "<p a <b></p>", "<p"}) {
    EXPECT_NE(markup_fault(wrong), "") << wrong;
  }
  EXPECT_TRUE(has_bad_coordinates("<rect x=\"nan\"/>"));
  EXPECT_TRUE(has_bad_coordinates("<path d=\"M0 -inf\"/>"));
  EXPECT_FALSE(has_bad_coordinates("<p>nan</p>"));
}

// Language models have perplexities, and a curve of their test loss.
TEST(Page, ShowsLanguageModelsWithoutAccuracy) {
  RunData run = full_run();
  run.has_accuracy = false;
  run.epochs.back().test_loss = 2;
  run.evaluations = {{.step = 30, .loss = 3}, {.step = 60, .loss = 2}};
  const std::string html = to_html({.title = "gpt", .runs = {run}});
  expect_sound(html);
  EXPECT_THAT(html, HasSubstr("and ended with a test perplexity of 7.39 and a test loss of 2."));
  EXPECT_THAT(html, HasSubstr("<h3>Test loss</h3>"));
  EXPECT_THAT(html, Not(HasSubstr("accuracy")));
  const std::string both = to_html({.title = "gpt", .runs = {run, run}});
  expect_sound(both);
  EXPECT_THAT(both, HasSubstr("<th scope=\"col\">test perplexity</th>"));
  EXPECT_THAT(both, HasSubstr("<td>7.39</td>"));
  EXPECT_THAT(both, Not(HasSubstr("accuracy")));
  run.evaluations.resize(1);
  EXPECT_THAT(to_html({.title = "gpt", .runs = {run}}), Not(HasSubstr("<h3>Test loss</h3>")));
}

TEST(Page, HoldsEverySectionOfARun) {
  const std::string html = to_html({.title = "lenet5 & <co>", .runs = {full_run()}});
  expect_sound(html);
  EXPECT_THAT(html, HasSubstr("<h1>lenet5 &amp; &lt;co&gt;</h1>"));
  for (const char* part :
       {"<h3>Loss</h3>", "<h3>Test accuracy, in percent</h3>", "<h3>Loss scale</h3>",
        "<h3>Skipped steps</h3>", "<h3>Learning rate</h3>", "<h2>Parameter gradients</h2>",
        "<h2>Activation gradients</h2>", "<h2>Precision plan</h2>", "<h3>Reasons</h3>",
        "conv1.&lt;weight&gt;", "&lt;mnist&gt;:&quot;x&quot; &amp; &#39;y&#39;",
        "gains &amp; &lt;more&gt;", "With the scale 2¹⁶"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("<weight>")));
  EXPECT_LT(html.find("class=\"verdict\""), html.find("<dl class=\"facts\""));
}

TEST(Page, NeedsNothingElse) {
  const std::string html = to_html({.title = "t", .runs = {full_run()}});
  for (const char* outside : {"http:", "https:", "<script", "<link", "url(", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(count_of_text(html, "src="), count_of_text(html, "src=\"data:image/png;base64,"));
}

TEST(Page, ShowsTheFirstBatch) {
  RunData run = full_run();
  const std::string html = to_html({.title = "t", .runs = {run}});
  EXPECT_THAT(html, HasSubstr("The first 2 of 64 images, as the network sees them"));
  EXPECT_THAT(html,
              HasSubstr("<img alt=\"&lt;cat&gt; &amp; &quot;dog&quot;\" width=\"28\" height=\"14\" "
                        "src=\"data:image/png;base64,/w==\"/>"
                        "<figcaption>&lt;cat&gt; &amp; &quot;dog&quot;</figcaption>"));
  run.batch_size = 2;
  EXPECT_THAT(to_html({.title = "t", .runs = {run}}), HasSubstr("All 2 images, as"));
}

TEST(Page, SaysWhereAResumedRunBegins) {
  RunData run = full_run();
  EXPECT_THAT(to_html({.title = "t", .runs = {run}}), Not(HasSubstr("checkpoint")));
  run.resumed_after = 40;
  EXPECT_THAT(to_html({.title = "t", .runs = {run}}),
              HasSubstr("The page begins with step 41: the 40 steps before"));
}

TEST(Page, LeavesOutWhatThereIsNot) {
  const std::string html = to_html({.title = "t", .runs = {example_run(3)}});
  expect_sound(html);
  for (const char* absent : {"Loss scale", "<h3>Skipped", "gradients", "plan", "First batch"}) {
    EXPECT_THAT(html.substr(html.find("<main")), Not(HasSubstr(absent))) << absent;
  }
  expect_sound(to_html(Report{}));
  expect_sound(to_html({.title = "", .runs = {RunData()}}));
}

TEST(Page, OneEpochIsNoCurve) {
  RunData run = example_run(3);
  EXPECT_THAT(to_html({.title = "t", .runs = {run, run}}), Not(HasSubstr("Test accuracy, in")));
  run.epochs.push_back(run.epochs.front());
  EXPECT_EQ(count_of_text(to_html({.title = "t", .runs = {run, example_run(3)}}),
                          "<h3>Test accuracy, in") +
                count_of_text(to_html({.title = "t", .runs = {run, example_run(3)}}),
                              "<h4>Test accuracy, in"),
            2U);  // of both runs, and of the first
}

TEST(Page, ComparesSeveralRuns) {
  RunData f32 = example_run(60);
  f32.name = "lenet5 O0";
  const std::string html = to_html({.title = "compare", .runs = {f32, full_run()}});
  expect_sound(html);
  EXPECT_THAT(html, HasSubstr("<h2>Comparison</h2>"));
  EXPECT_EQ(count_of_text(html, "<article "), 2U);
  EXPECT_THAT(
      html,
      HasSubstr(
          "<th scope=\"row\">lenet5 O0</th><td>92.50 %</td><td>0.25</td><td>60</td><td>0</td>"));
  EXPECT_THAT(html, HasSubstr("<td>50.0 % in 2 of 60 steps</td>"));
}

// The chart of a constant would show a line and say less than the number.
TEST(Page, ANumberThatNeverChangesIsALineOfText) {
  RunData run = example_run(20, 1024);
  const std::string constant = to_html({.title = "t", .runs = {run}});
  expect_sound(constant);
  EXPECT_THAT(constant, HasSubstr("<h3>Loss scale</h3>\n<p>2¹⁰ in every step.</p>"));
  EXPECT_THAT(constant, HasSubstr("<h3>Learning rate</h3>\n<p>0.1 in every step.</p>"));
  EXPECT_EQ(count_of_text(constant, "role=\"img\""), 1U) << "of the loss";
  run.steps.back().scale = 2048;
  run.steps.back().lr = 0.01;
  const std::string changing = to_html({.title = "t", .runs = {run}});
  EXPECT_EQ(count_of_text(changing, "role=\"img\""), 3U);
  EXPECT_THAT(changing, Not(HasSubstr("in every step")));
  run.steps.resize(1);
  EXPECT_THAT(to_html({.title = "t", .runs = {run}}), HasSubstr("<p>0.1.</p>"));
}

// A share of the gradients refers to what was counted, wherever it is shown.
TEST(Page, SaysBesideAPartInWhichStepsItWasCounted) {
  const std::string html = to_html({.title = "t", .runs = {example_run(60), full_run()}});
  EXPECT_THAT(html, HasSubstr("<td>50.0 % in 2 of 60 steps</td>"));
  EXPECT_THAT(html, HasSubstr("powers of two, counted in 2 of 60 steps."));
  EXPECT_THAT(html, HasSubstr("as counted in 2 of 60 steps.</p>"));
}

// A chart of all runs could not show whose steps were skipped.
TEST(Page, MarksSkippedStepsInChartsOfTheirRunAlone) {
  RunData run = example_run(20, 4);
  run.steps[7].skipped = true;
  const std::string one = to_html({.title = "t", .runs = {run}});
  const std::size_t marks = count_of_text(one, "class=\"mark-dot\"");
  ASSERT_GT(marks, 0U);
  const std::string two = to_html({.title = "t", .runs = {run, run}});
  EXPECT_EQ(count_of_text(two, "class=\"mark-dot\""), 2 * marks);
}

TEST(Page, ListsTheFirstOfVeryManySkippedSteps) {
  RunData run = example_run(200, 4);
  for (StepRecord& step : run.steps) step.skipped = true;
  const std::string html = to_html({.title = "t", .runs = {run}});
  EXPECT_EQ(count_of_text(html, "<td>not recorded</td>"), 50U);
  EXPECT_THAT(html, HasSubstr("and 150 more."));
}

TEST(Page, IsWrittenWholeOrNotAtAll) {
  const fs::path folder = fs::temp_directory_path() / "mezzo_report_page";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = (folder / "run.html").string();
  EXPECT_NO_THROW(check_writable(path));
  EXPECT_TRUE(fs::is_empty(folder));
  const Report report{.title = "t", .runs = {full_run()}};
  write_page(path, report);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), to_html(report));
  EXPECT_THROW(check_writable((folder / "none" / "run.html").string()), FileError);
  EXPECT_THROW(write_page((folder / "none" / "run.html").string(), report), FileError);
  EXPECT_THROW(check_writable(folder.string()), FileError);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace mezzo::report
