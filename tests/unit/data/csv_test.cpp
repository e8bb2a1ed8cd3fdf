// Tests reading CSV files.
#include "mezzo/data/csv.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::data {
namespace {

using testing::ElementsAre;

using Floats = std::vector<float>;
using Names = std::vector<std::string>;

constexpr const char* kFlowers =
    "id,length,width,species\n"
    "1,5.1,3.5,setosa\n"
    "2,7,3.2,versicolor\n"
    "3,4.9,3,setosa\n";

TEST(Csv, GivesFeaturesAndNamedClasses) {
  const CsvTable table = parse_csv(kFlowers, {.leave_out = {"id"}, .label = "species"});
  EXPECT_EQ(table.features.shape(), (Shape{3, 2}));
  EXPECT_EQ(table.features.dtype(), DType::kF32);
  EXPECT_EQ(table.features.to_vector<float>(), (Floats{5.1F, 3.5F, 7, 3.2F, 4.9F, 3}));
  EXPECT_EQ(table.feature_names, (Names{"length", "width"}));
  EXPECT_EQ(table.labels.dtype(), DType::kI64);
  EXPECT_THAT(table.labels.to_vector<std::int64_t>(), ElementsAre(0, 1, 0));
  EXPECT_EQ(table.class_names, (Names{"setosa", "versicolor"}));
}

TEST(Csv, TakesColumnsByNameOrNumberInTheirOrder) {
  const CsvTable table = parse_csv(kFlowers, {.features = {"width", 0, -3}, .label = -1});
  EXPECT_EQ(table.feature_names, (Names{"width", "id", "length"}));
  EXPECT_EQ(table.features.to_vector<float>(), (Floats{3.5F, 1, 5.1F, 3.2F, 2, 7, 3, 3, 4.9F}));
  const CsvTable all = parse_csv("1;2\n3;4\n", {.delimiter = ';', .header = false});
  EXPECT_EQ(all.features.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(all.feature_names.empty());
  EXPECT_FALSE(all.labels.defined());
}

TEST(Csv, NumbersClassesBySortedNamesOrAsGiven) {
  const auto labels_of = [](const std::string& text, const CsvOptions& options) {
    const CsvTable table = parse_csv(text, options);
    return std::pair(table.labels.to_vector<std::int64_t>(), table.class_names);
  };
  using Labels = std::pair<std::vector<std::int64_t>, Names>;
  const CsvOptions by_last{.header = false, .label = 1};
  EXPECT_EQ(labels_of("0,b\n0,c\n0,a\n0,b\n", by_last), (Labels{{1, 2, 0, 1}, {"a", "b", "c"}}));
  EXPECT_EQ(labels_of("0,7\n0,0\n0,12\n", by_last), (Labels{{7, 0, 12}, {}}));
  EXPECT_EQ(labels_of("0,1\n0,-1\n", by_last), (Labels{{1, 0}, {"-1", "1"}}));
  EXPECT_EQ(labels_of("0,1\n0,one\n", by_last), (Labels{{0, 1}, {"1", "one"}}));
  CsvOptions known = by_last;
  known.class_names = {"c", "a", "b"};
  EXPECT_EQ(labels_of("0,b\n0,c\n", known), (Labels{{2, 0}, {"c", "a", "b"}}));
  const CsvTable targets =
      parse_csv("1,0.5\n2,-3\n", {.header = false, .label = 1, .labels = CsvLabels::kNumbers});
  EXPECT_EQ(targets.labels.dtype(), DType::kF32);
  EXPECT_EQ(targets.labels.to_vector<float>(), (Floats{0.5F, -3}));
}

// Line ends, a byte order mark, spaces, empty lines and a missing end of the last line.
TEST(Csv, ReadsTheSameHoweverItWasWritten) {
  const CsvOptions options{.label = "c"};
  const CsvTable expected = parse_csv("a,b,c\n1,2,x\n3,4,y\n", options);
  for (const std::string text :
       {"a,b,c\r\n1,2,x\r\n3,4,y\r\n", "a,b,c\r1,2,x\r3,4,y",
        "\xEF\xBB\xBF"
        "a,b,c\n1,2,x\n3,4,y\n",
        "\n\na,b,c\n\n1,2,x\r\n\r\n3,4,y\n\n\n", " a , b,c\n 1 ,+2\t, x\n3,4 ,y",
        "\"a\",\"b\",\"c\"\n\"1\",\"2\",\"x\"\n\"3\",\"4\",\"y\"\n",
        "a,b,c\n1.0,2e0,x\n.3e1,4.,y\n"}) {
    const CsvTable table = parse_csv(text, options);
    EXPECT_EQ(table.features.to_vector<float>(), expected.features.to_vector<float>()) << text;
    EXPECT_EQ(table.feature_names, expected.feature_names) << text;
    EXPECT_EQ(table.labels.to_vector<std::int64_t>(), expected.labels.to_vector<std::int64_t>());
    EXPECT_EQ(table.class_names, expected.class_names) << text;
  }
}

TEST(Csv, QuotedFieldsHoldDelimitersQuotesAndLines) {
  const CsvTable table = parse_csv(
      "\"a, the first\",class\n1,\"x, \"\"y\"\"\"\n2,\"two\r\nlines\"\n3,\"\"\"\"\n4,\" x \"\n",
      {.label = 1});
  EXPECT_EQ(table.feature_names, (Names{"a, the first"}));
  EXPECT_EQ(table.class_names, (Names{" x ", "\"", "two\r\nlines", "x, \"y\""}));
  EXPECT_THAT(table.labels.to_vector<std::int64_t>(), ElementsAre(3, 2, 1, 0));
}

TEST(Csv, FillsWhatIsMissing) {
  const CsvTable table = parse_csv("a,b\n,NA\n?,1\nnan,\"\"\n", {.missing = -1.0F});
  EXPECT_EQ(table.features.to_vector<float>(), (Floats{-1, -1, -1, 1, -1, -1}));
  const CsvTable own = parse_csv("a,b\n-,2\n", {.missing = 0.0F, .missing_words = {"-"}});
  EXPECT_EQ(own.features.to_vector<float>(), (Floats{0, 2}));
}

// Each value is the f32 nearest to the decimal number, as strtof() gives it, which rounds once.
TEST(Csv, NumbersAreRoundedOnce) {
  Generator random(3);
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    const double mantissa = static_cast<double>(random.next()) * 0x1p-31 - 1;
    const int exponent = static_cast<int>(random.below(85)) - 46;
    std::snprintf(text, sizeof text, "%.*fe%d", static_cast<int>(random.below(18)), mantissa,
                  exponent);
    const float expected = std::strtof(text, nullptr);
    if (!std::isfinite(expected)) continue;
    const CsvTable table = parse_csv(text, {.header = false});
    ASSERT_EQ(table.features.to_vector<float>(), (Floats{expected})) << text;
  }
  const CsvTable edges = parse_csv(
      "3.4028235e38,-3.4028235e38,1e-45,1e-50,1e-400,-0,0e999999,0.1\n", {.header = false});
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(edges.features.to_vector<float>(), (Floats{most, -most, least, 0, 0, 0, 0, 0.1F}));
}

TEST(Csv, ReadsFilesAlsoCompressed) {
  const TempFolder folder;
  std::string text = "a,b,label\n";
  Floats expected;
  for (int i = 0; i < 200000; ++i) {  // more than is read at once
    text += std::to_string(i) + ",0.5," + std::to_string(i % 3) + "\n";
    expected.push_back(static_cast<float>(i));
    expected.push_back(0.5F);
  }
  const Bytes bytes(text.begin(), text.end());
  for (const std::string& path :
       {folder.write("table.csv", bytes), folder.write_gz("t.csv.gz", bytes)}) {
    const CsvTable table = read_csv(path, {.label = "label"});
    EXPECT_EQ(table.features.to_vector<float>(), expected);
    EXPECT_EQ(table.labels.to_vector<std::int64_t>()[200], 2);
  }
}

}  // namespace
}  // namespace mezzo::data
