#include "tests/frameworks/differences.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "mezzo/amp/level.h"
#include "mezzo/core/error.h"
#include "tests/frameworks/facts.h"
#include "tests/frameworks/operations.h"
#include "tests/frameworks/scaling.h"

namespace mezzo::frameworks {
namespace {

using Json = nlohmann::ordered_json;

// Two sequences of steps in common.py, which show the limits of a scale.
constexpr const char* kSmallest = "200 overflows from 1024";
constexpr const char* kLargest = "60 growths from 2^100";

constexpr const char* kNames[] = {"pytorch", "mindspore", "megengine", "oneflow"};

Json read_json(const std::string& name) {
  return Json::parse(read_file(concat(MEZZO_FRAMEWORKS_FOLDER, "/", name)));
}

// Collects the differences of one framework.
class Comparison {
 public:
  Comparison(std::string framework, std::vector<Difference>& found)
      : framework_(std::move(framework)), found_(found) {}

  void compare(const std::string& where, const std::string& what, const std::string& inputs,
               const std::string& theirs, const std::string& ours) {
    if (theirs != ours) found_.push_back({framework_, where, what, inputs, theirs, ours});
  }

 private:
  std::string framework_;
  std::vector<Difference>& found_;
};

std::string with_16_bits(std::string text, const std::string& lower) {
  for (auto at = text.find(lower); at != std::string::npos; at = text.find(lower)) {
    text.replace(at, lower.size(), "16 bits");
  }
  return text;
}

void compare_casts(Comparison& comparison, const Json& casts) {
  for (const auto& [where, region] : casts.items()) {
    const std::string lower = region.at("lower");
    const amp::Policy policy{.level = amp::level_named(region.at("level").get<std::string>(), "x"),
                             .lower = lower == "f16" ? DType::kF16 : DType::kBf16};
    for (const auto& [operation, answers] : region.at("answers").items()) {
      for (const auto& [inputs, theirs] : answers.items()) {
        comparison.compare(where, operation, with_16_bits(inputs, lower),
                           with_16_bits(theirs, lower),
                           with_16_bits(answer(operation, inputs, policy), lower));
      }
    }
  }
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string text_of(const Trajectory& trajectory) {
  if (trajectory.refused) return "refused";
  std::string text;
  for (const double scale : trajectory.scales) {
    text += concat(text.empty() ? "" : " ", number_text(scale));
  }
  return text;
}

double number_in(const Json& scale) {
  return scale.is_string() ? std::stod(scale.get<std::string>()) : scale.get<double>();
}

Trajectory theirs_in(const Json& row) {
  Trajectory theirs;
  theirs.refused = row.contains("error");
  for (const Json& scale : row.value("scales", Json::array())) {
    theirs.scales.push_back(number_in(scale));
  }
  theirs.taken = row.value("taken", "");
  return theirs;
}

Trajectory ours_of(const std::string& scaler, const Json& row) {
  const Json& options = row.at("options");
  std::string steps;
  const int times = row.at("times");
  for (int i = 0; i < times; ++i) steps += row.at("steps").get<std::string>();
  Trajectory ours = trajectory(scaler, {options[0], options[1], options[2], options[3]}, steps);
  if (times > 1 && !ours.refused) ours.scales = {ours.scales.back()};
  if (times > 1 || !row.contains("taken")) ours.taken.clear();
  return ours;
}

void compare_trajectory(Comparison& comparison, const std::string& scaler, const std::string& name,
                        const Json& row) {
  const Trajectory theirs = theirs_in(row);
  const Trajectory ours = ours_of(scaler, row);
  std::string their_text = text_of(theirs);
  std::string our_text = text_of(ours);
  // The scales are equal to the last bit, and these are six digits.
  if (their_text == our_text && theirs.scales != ours.scales) {
    their_text = "other digits after the sixth";
    our_text = "rounded to f32";
  }
  comparison.compare(scaler, name, "", their_text, our_text);
  if (!theirs.refused && !ours.refused) {
    comparison.compare(scaler, concat(name, ", steps"), "", theirs.taken, ours.taken);
  }
}

void compare_scalers(Comparison& comparison, const Json& scalers) {
  for (const auto& [scaler, answers] : scalers.items()) {
    if (answers.contains("defaults")) {
      const Json& theirs = answers["defaults"];
      const ScaleOptions ours = default_options(scaler);
      const Json here = {ours.init, ours.growth, ours.backoff, ours.interval};
      if (theirs != here) comparison.compare(scaler, "defaults", "", theirs.dump(), here.dump());
    }
    // Every scale in mezzo is an f32 value.
    comparison.compare(scaler, "scale is kept in", "", answers.value("scale is kept in", "f32"),
                       "f32");
    for (const auto& [name, row] : answers.at("trajectories").items()) {
      compare_trajectory(comparison, scaler, name, row);
    }
  }
}

// The classes whose operations behave like OneFlow's of that list.
bool same_class(const std::string& list, const std::string& ours) {
  if (list == "white") return ours == "lower";
  if (list == "on no list") return ours == "float32";
  return ours == "widest" || ours == "follow" || ours == "keep";
}

void compare_lists(Comparison& comparison, const Json& lists) {
  for (const auto& [operation, list] : lists.at("lists").items()) {
    for (const DType lower : {DType::kBf16, DType::kF16}) {
      const std::string ours = class_of(operation, lower);
      if (!same_class(list, ours)) {
        comparison.compare(concat("lists, ", name_of(lower)), operation, "", list, ours);
      }
    }
  }
}

void compare_facts(Comparison& comparison, const Json& facts) {
  for (const auto& [question, theirs] : facts.items()) {
    comparison.compare("single questions", question, "", theirs, fact(question));
  }
}

std::string defaults_text(const Json& answers) {
  if (!answers.contains("defaults")) return "none";
  std::string text;
  for (const Json& number : answers["defaults"]) {
    text += concat(text.empty() ? "" : ", ", number_text(number.get<double>()));
  }
  return text;
}

std::vector<std::string> strings_of(const Json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  return value.get<std::vector<std::string>>();
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  check_arg(file.good(), "frameworks", "no file ", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string scales_table() {
  std::string text =
      concat("| loss scale | first, factors, interval | kept in | ", kSmallest, " | ", kLargest,
             " | both here, all in f32 |\n|---|---|---|---|---|---|\n");
  for (const char* name : kNames) {
    const Json data = read_json(concat("data/", name, ".json"));
    for (const auto& [scaler, answers] : data.at("scalers").items()) {
      const Json& trajectories = answers.at("trajectories");
      if (!trajectories.contains(kSmallest)) continue;
      const auto last = [&](const char* kind) { return text_of(theirs_in(trajectories[kind])); };
      const auto ours = [&](const char* kind) {
        return text_of(ours_of(scaler, trajectories[kind]));
      };
      text += concat("| `", scaler, "` | ", defaults_text(answers), " | ",
                     answers.at("scale is kept in").get<std::string>(), " | ", last(kSmallest),
                     " | ", last(kLargest), " | ", ours(kSmallest), "; ", ours(kLargest), " |\n");
    }
  }
  return text;
}

std::vector<Difference> found_differences() {
  std::vector<Difference> found;
  for (const char* name : kNames) {
    const Json data = read_json(concat("data/", name, ".json"));
    Comparison comparison(data.at("framework"), found);
    compare_casts(comparison, data.value("casts", Json::object()));
    compare_scalers(comparison, data.value("scalers", Json::object()));
    if (data.contains("lists")) compare_lists(comparison, data["lists"]);
    compare_facts(comparison, data.value("facts", Json::object()));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<KnownRow> known_rows() {
  std::vector<KnownRow> rows;
  for (const Json& row : read_json("differences.json")) {
    rows.push_back({row.at("framework"), strings_of(row.at("where")), strings_of(row.at("what")),
                    strings_of(row.value("inputs", Json(""))), row.at("theirs"), row.at("ours"),
                    row.at("why")});
  }
  return rows;
}

std::vector<Difference> differences_in(const std::vector<KnownRow>& rows) {
  std::vector<Difference> all;
  for (const KnownRow& row : rows) {
    for (const std::string& where : row.where) {
      for (const std::string& what : row.what) {
        for (const std::string& inputs : row.inputs) {
          all.push_back({row.framework, where, what, inputs, row.theirs, row.ours});
        }
      }
    }
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace mezzo::frameworks
