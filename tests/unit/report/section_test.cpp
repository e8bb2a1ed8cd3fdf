#include "mezzo/report/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/report/document.h"
#include "mezzo/report/html.h"
#include "tests/unit/report/structure.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Section example_section() {
  Section section{.id = "first-overflow", .title = "First <overflow>", .intro = "How & why."};
  section.add("<p>alone</p>\n");
  section.add("By module", "<p>each</p>\n");
  section.add("Nothing", "");
  return section;
}

TEST(Section, HasItsHeadingsWhereThePageWantsThem) {
  EXPECT_EQ(to_html(example_section(), {}),
            "<section id=\"first-overflow\">\n<h2>First &lt;overflow&gt;</h2>\n"
            "<p class=\"note\">How &amp; why.</p>\n<p>alone</p>\n<h3>By module</h3>\n<p>each</p>\n"
            "</section>\n");
  const std::string below = to_html(example_section(), {.prefix = "run-2-", .level = 3});
  EXPECT_THAT(below, HasSubstr("<section id=\"run-2-first-overflow\">\n<h3>First"));
  EXPECT_THAT(below, HasSubstr("<h4>By module</h4>"));
  EXPECT_EQ(to_html(Section{.id = "a", .title = "Without parts"}, {}), "");
}

TEST(Document, LeadsToItsSections) {
  Document document{.title = "lenet5 & co", .kind = "mezzo comparison"};
  document.add({example_section(), {.id = "empty", .title = "Empty"}}, {});
  document.add({example_section()}, {.prefix = "b-"});
  const std::string html = to_html(document);
  expect_usable(html);
  EXPECT_THAT(html, HasSubstr("<title>lenet5 &amp; co</title>"));
  EXPECT_THAT(html, HasSubstr("<p class=\"sub\">mezzo comparison</p>"));
  EXPECT_THAT(html, HasSubstr("<a href=\"#b-first-overflow\">First &lt;overflow&gt;</a>"));
  EXPECT_THAT(html, Not(HasSubstr("#empty")));
  EXPECT_THAT(html, Not(HasSubstr("http-equiv")));
}

TEST(Document, OneSectionNeedsNoContents) {
  Document document{.title = "t"};
  document.add({example_section()}, {});
  EXPECT_THAT(to_html(document), Not(HasSubstr("<nav")));
}

TEST(PageTable, LongOnesAreFolded) {
  Table content{.header = {"path", "<op>"}, .rows = {{"a", "b&c"}}};
  const std::string one = table_folded_if_long(content, "Calls");
  EXPECT_THAT(one, Not(HasSubstr("<details>")));
  EXPECT_THAT(one, HasSubstr("<th scope=\"col\">&lt;op&gt;</th>"));
  EXPECT_THAT(one, HasSubstr("<th scope=\"row\">a</th><td>b&amp;c</td>"));
  content.rows.assign(25, {"a", "b"});
  const std::string many = table_folded_if_long(content, "Calls");
  EXPECT_EQ(markup_fault(many), "");
  EXPECT_THAT(many, HasSubstr("<summary>Calls: 25 rows</summary>"));
}

}  // namespace
}  // namespace mezzo::report
