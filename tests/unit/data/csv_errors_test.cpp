// Tests CSV files that are refused, and the messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/csv.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text, const CsvOptions& options = {}) {
  return message_of<FileError>([&] { parse_csv(text, options, "t.csv"); });
}

TEST(CsvErrors, NameLineAndColumn) {
  EXPECT_EQ(refusal("a,b\n1,2\n3,x y\n"),
            "[csv] t.csv: line 3, column b: `x y` is not a number. Correct it, or leave the column "
            "out");
  EXPECT_THAT(refusal("1,2\n\n3,abc\n", {.header = false}),
              HasSubstr("line 3, column 1: `abc` is not a number"));
  EXPECT_EQ(refusal("a,b\r\n1,\r\n"),
            "[csv] t.csv: line 2, column b: a value is missing. Fill it in, or set its replacement "
            "in `missing`");
  EXPECT_THAT(refusal("a,b\nNA,1\n"), HasSubstr("line 2, column a: a value is missing"));
  EXPECT_EQ(refusal("a,b\n1,\n", {.label = "b", .missing = 0.0F}),
            "[csv] t.csv: line 2, column b: the label is missing. Fill it in, or remove the line");
  EXPECT_EQ(refusal("a,b\n1,z\n", {.label = "b", .class_names = {"x", "y"}}),
            "[csv] t.csv: line 2, column b: `z` is not one of the classes x, y. Correct it, or "
            "list all classes");
  // A field of several lines counts as several lines.
  EXPECT_THAT(refusal("a,b\n1,\"x\ny\"\n2,z\nq,z\n", {.label = 1}),
              HasSubstr("line 5, column a: `q` is not a number"));
  EXPECT_THAT(refusal("a\n\"x\ny\"\n"), HasSubstr("line 2, column a: `x?y` is not"));
  EXPECT_THAT(refusal("a\n" + std::string(100, 'x') + "\n"),
              HasSubstr("`" + std::string(40, 'x') + "...` is not"));
}

TEST(CsvErrors, NumbersMustBeFiniteInF32) {
  for (const char* text : {"1e39", "-1e39", "1e400", "inf", "-Infinity", "nan(1)", "3.5e38",
                           "99999999999999999999999999999999999999999999"}) {
    EXPECT_THAT(refusal(std::string("a\n") + text + "\n"),
                testing::AnyOf(HasSubstr("is not finite in f32"), HasSubstr("is not a number")))
        << text;
  }
  for (const char* text :
       {"0x10", "1,5", "1 2", "+-1", "--1", "1e", "e5", "-", "+", ".", "1.2.3"}) {
    EXPECT_THAT(refusal(std::string("a;b\n0;") + text + "\n", {.delimiter = ';'}),
                HasSubstr("is not a number"))
        << text;
  }
}

TEST(CsvErrors, RecordsMustHaveOneLength) {
  EXPECT_EQ(refusal("a,b\n1,2\n3\n"),
            "[csv] t.csv: line 3: the number of fields is 1, and in line 1 it is 2. Check the "
            "delimiter, and put fields that contain it in quotes");
  EXPECT_THAT(refusal("a,b\n1,2,\n"), HasSubstr("line 2: the number of fields is 3"));
  EXPECT_THAT(refusal("1,2\n3,4,5\n", {.header = false}),
              HasSubstr("line 2: the number of fields"));
}

TEST(CsvErrors, QuotesMustEnd) {
  EXPECT_EQ(refusal("a,b\n1,\"x\n2,3\n"),
            "[csv] t.csv: line 2: a quoted field does not end. Close it with a quote, and double "
            "quotes that belong to the field");
  EXPECT_THAT(refusal("a,b\n1,\"x\"y\n"),
              HasSubstr("line 2: text follows the closing quote of a field"));
  EXPECT_THAT(refusal("a\n\""), HasSubstr("a quoted field does not end"));
  EXPECT_THAT(refusal("a\n\"\"\""), HasSubstr("a quoted field does not end"));
}

TEST(CsvErrors, ColumnsMustBeThere) {
  EXPECT_EQ(refusal("a,b\n1,2\n", {.label = "c"}),
            "[csv] t.csv: there is no column c. The columns are a, b");
  EXPECT_THAT(refusal("a,a\n1,2\n", {.features = {"a"}}), HasSubstr("there are two columns a"));
  EXPECT_EQ(refusal("a,b\n1,2\n", {.label = 2}),
            "[csv] t.csv: there is no column 2 of 2. Columns count from 0");
  EXPECT_THAT(refusal("a,b\n1,2\n", {.leave_out = {-3}}), HasSubstr("there is no column -3 of 2"));
  EXPECT_THAT(refusal("a;b\n1;2\n", {.label = 0}), HasSubstr("Check the delimiter"));
  for (const char* text : {"", "\n\n", "a,b\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(refusal(text), "[csv] t.csv: there are no records. Give a file that has some");
  }
  EXPECT_THAT(refusal(std::string("\xFF\xFE"
                                  "a\0\n\0",
                                  6)),
              HasSubstr("UTF-16"));
}

TEST(CsvErrors, OptionsMustAgree) {
  const auto wrong = [](const CsvOptions& options) {
    return message_of<ArgumentError>([&] { parse_csv("a,b\n1,2\n", options); });
  };
  EXPECT_THAT(wrong({.delimiter = '"'}), HasSubstr("cannot be the delimiter"));
  EXPECT_THAT(wrong({.features = {0}, .leave_out = {1}}), HasSubstr("Give only one of them"));
  EXPECT_THAT(wrong({.features = {0, 1}, .label = "b"}), HasSubstr("the label is a feature"));
  EXPECT_THAT(wrong({.class_names = {"x"}}), HasSubstr("Give it as the label"));
  EXPECT_THAT(wrong({.label = 1, .class_names = {"x", "x"}}), HasSubstr("the same name"));
  EXPECT_THAT(wrong({.header = false, .label = "b"}), HasSubstr("without a header"));
}

TEST(CsvErrors, FilesMustBeThereAndWhole) {
  const TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { read_csv(folder.path("none.csv")); }),
              HasSubstr("none.csv"));
  EXPECT_THAT(message_of<FileError>([&] { read_csv(folder.path()); }), HasSubstr("[csv]"));
  const std::string path = folder.write_gz("t.csv.gz", Bytes(1000, '1'));
  Bytes bytes = TempFolder::read(path);
  bytes.resize(bytes.size() / 2);
  folder.write("t.csv.gz", bytes);
  EXPECT_THAT(message_of<FileError>([&] { read_csv(path); }),
              HasSubstr("the compressed data ends early"));
}

}  // namespace
}  // namespace mezzo::data
