// Tests that docs/modules.md lists exactly what exists, with correct counts.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/models/gpt.h"
#include "mezzo/models/model.h"
#include "mezzo/train/schedule.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using Row = std::vector<std::string>;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The cells of a table's row, without code quotes around the first.
Row cells_of(const std::string& line) {
  Row cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const std::size_t begin = cell.find_first_not_of(" `");
    const std::size_t end = cell.find_last_not_of(" `");
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// The rows of the table under a heading, by their first cells.
std::map<std::string, Row> table_under(const std::string& heading) {
  static const std::string kPage = read_file(fs::path(MEZZO_SOURCE) / "docs" / "modules.md");
  std::map<std::string, Row> rows;
  const std::size_t begin = kPage.find("\n## " + heading + "\n");
  EXPECT_NE(begin, std::string::npos) << heading;
  if (begin == std::string::npos) return rows;
  std::istringstream lines(kPage.substr(begin + 1, kPage.find("\n## ", begin + 1) - begin));
  int of_head = 2;  // the header and the line below it
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|') || of_head-- > 0) continue;
    const Row row = cells_of(line);
    EXPECT_TRUE(rows.emplace(row.front(), row).second) << row.front() << " has two rows";
  }
  return rows;
}

Names names_under(const std::string& heading) {
  Names names;
  for (const auto& [name, row] : table_under(heading)) names.insert(name);
  return names;
}

// The first group of every match of a pattern in the headers of a folder.
Names found_in(const std::string& folder, const std::string& pattern,
               const std::string& file_pattern = ".*") {
  Names names;
  for (const auto& entry : fs::directory_iterator(fs::path(MEZZO_SOURCE) / "mezzo" / folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".h") || !std::regex_match(name, std::regex(file_pattern))) continue;
    const std::string text = read_file(entry.path());
    const std::regex wanted(pattern);
    for (std::sregex_iterator match(text.begin(), text.end(), wanted), end; match != end; ++match) {
      names.insert((*match)[1].str());
    }
  }
  return names;
}

// Classes that derive from `base`, directly or through others.
Names classes_from(const std::string& folder, const std::string& base) {
  Names all;
  for (const std::string& name :
       found_in(folder, "\nclass (\\w+)(?: final)? : public " + base + " \\{")) {
    all.insert(name);
    all.merge(classes_from(folder, name));
  }
  return all;
}

Names joined(Names a, Names b) {
  a.merge(b);
  return a;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

TEST(Lists, HaveEveryProgram) {
  Names programs;
  for (const auto& entry : fs::directory_iterator(fs::path(MEZZO_SOURCE) / "examples")) {
    if (entry.path().extension() == ".cpp") programs.insert(entry.path().stem().string());
  }
  EXPECT_EQ(names_under("Programs to start from"), programs);
}

std::int64_t gpt_parameters(const models::GptOptions& options) {
  const std::int64_t width = options.width;
  const std::int64_t block = 12 * width * width + 13 * width;  // four matrices, biases, norms
  return (options.vocabulary + options.positions + 2) * width + options.layers * block;
}

// The large sizes of GPT-2 take gigabytes, so theirs is computed.
std::int64_t parameters_of(const std::string& name) {
  if (name == "gpt2") return gpt_parameters(models::GptOptions::gpt2());
  if (name == "gpt2-medium") return gpt_parameters(models::GptOptions::medium());
  if (name == "gpt2-large") return gpt_parameters(models::GptOptions::large());
  if (name == "gpt2-xl") return gpt_parameters(models::GptOptions::xl());
  return models::create(name, models::usual_config(name))->parameter_count();
}

TEST(Lists, KnowTheParametersOfAGpt) {
  EXPECT_EQ(parameters_of("gpt-tiny"), gpt_parameters(models::GptOptions::tiny()));
}

TEST(Lists, HaveEveryNetworkWithItsNumbers) {
  const auto rows = table_under("Networks");
  const std::vector<std::string> models = models::names();
  EXPECT_EQ(names_under("Networks"), Names(models.begin(), models.end()));
  for (const std::string& name : models) {
    if (!rows.contains(name)) continue;
    const Row& row = rows.at(name);
    const models::ModelConfig usual = models::usual_config(name);
    const bool reads_tokens = usual.is_for_tokens();
    EXPECT_EQ(row.at(2), with_commas(parameters_of(name))) << name;
    EXPECT_EQ(row.at(3), reads_tokens ? concat(usual.tokens, " tokens")
                                      : concat(usual.in_channels, "x", usual.image_size, "x",
                                               usual.image_size));
    EXPECT_EQ(row.at(4),
              std::to_string(models::predicts_tokens(name) ? usual.vocabulary : usual.num_classes))
        << name;
  }
}

TEST(Lists, HaveEveryModule) { EXPECT_EQ(names_under("Modules"), classes_from("nn", "Module")); }

TEST(Lists, HaveEveryLoss) {
  const Names functions = found_in("ops", "\nTensor (\\w*(?:_loss|cross_entropy|_with_logits))\\(",
                                   ".*(loss|entropy).*");
  const Names objects = found_in("nn", "\nclass (\\w+Loss) ");
  EXPECT_GE(functions.size(), 7U);
  EXPECT_EQ(names_under("Losses"), joined(functions, objects));
}

TEST(Lists, HaveEveryOptimizer) {
  EXPECT_EQ(names_under("Optimizers"), classes_from("optim", "Optimizer"));
}

TEST(Lists, HaveEverySchedule) {
  Names kinds;
  for (const auto& [name, row] : table_under("Schedules")) {
    const auto kind = train::parse_schedule(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_THAT(train::schedule_names(), testing::HasSubstr(name));
    EXPECT_TRUE(kinds.insert(row.at(1)).second) << row.at(1);
  }
  EXPECT_EQ(kinds, found_in("train", "\n  (k\\w+),  ", "schedule.h"));
}

TEST(Lists, HaveEveryMetric) { EXPECT_EQ(names_under("Metrics"), classes_from("train", "Metric")); }

TEST(Lists, HaveEveryCallback) {
  Names callbacks = classes_from("train", "Callback");
  for (const char* of_the_command : {"PlanInUse", "RunReporter", "RunWatchers"}) {
    EXPECT_EQ(callbacks.erase(of_the_command), 1U) << "which no program makes";
  }
  EXPECT_EQ(names_under("Callbacks"), callbacks);
}

}  // namespace
}  // namespace mezzo
