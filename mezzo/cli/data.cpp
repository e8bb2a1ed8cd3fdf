// mezzo data: shows what a data set contains.
#include <filesystem>

#include "mezzo/cli/command.h"
#include "mezzo/cli/data_sheet.h"
#include "mezzo/cli/data_tokens.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/table.h"
#include "mezzo/data/statistics.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/png.h"
#include "mezzo/io/utf8.h"

namespace mezzo::cli {
namespace {

struct DataOptions : SharedOptions {
  SheetOptions sheet{};
  std::string split = "both";
  std::optional<std::int64_t> limit{};
  std::string out{};
};

// A split and what was found in it.
struct Examined {
  const char* name;  // of the split
  std::unique_ptr<data::Dataset> set;
  data::DatasetStatistics statistics;
};

std::string class_name(const data::Dataset& set, std::size_t label) {
  const std::vector<std::string> names = set.class_names();
  return names.empty() ? std::to_string(label) : names[label];
}

Json json_of(const data::Spread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
}

Json data_event(const std::string& spec, const Examined& split) {
  const data::DatasetStatistics& found = split.statistics;
  Json classes = Json::array();
  for (std::size_t i = 0; i < found.class_counts.size(); ++i) {
    classes.push_back({{"name", io::escape_invalid_utf8(class_name(*split.set, i))},
                       {"images", found.class_counts[i]}});
  }
  Json unreadable = Json::array();
  for (const data::UnreadableImage& image : found.unreadable) {
    unreadable.push_back({{"name", io::escape_invalid_utf8(image.name)},
                          {"why", io::escape_invalid_utf8(image.why)}});
  }
  return {{"event", "data"},
          {"data", io::escape_invalid_utf8(spec)},
          {"split", split.name},
          {"images", split.set->size()},
          {"classes", classes},
          {"examined", found.examined},
          {"heights", json_of(found.heights)},
          {"widths", json_of(found.widths)},
          {"formats", Json(found.formats)},
          {"mean", found.normalization.mean},
          {"deviation", found.normalization.deviation},
          {"unreadable", unreadable}};
}

// Prints the number of images of each class, with a column for each split.
void print_classes(const std::vector<Examined>& splits) {
  std::vector<std::vector<std::string>> rows{{"class"}};
  for (const Examined& split : splits) rows[0].emplace_back(split.name);
  std::vector<std::string> sums{"all"};
  const std::size_t classes = splits.front().statistics.class_counts.size();
  for (std::size_t i = 0; i < classes; ++i) {
    rows.push_back({on_one_line(class_name(*splits.front().set, i))});
    for (const Examined& split : splits) {
      rows.back().push_back(std::to_string(split.statistics.class_counts[i]));
    }
  }
  for (const Examined& split : splits) sums.push_back(std::to_string(split.set->size()));
  rows.push_back(std::move(sums));
  write_out("{}", format_table(rows));
}

std::string spread_text(const data::Spread& spread) {
  if (spread.least == spread.most) return std::to_string(spread.most);
  return fmt::format("{} to {}, median {}", spread.least, spread.most, spread.median);
}

std::string formats_of(const data::DatasetStatistics& found) {
  std::string text;
  for (const auto& [format, count] : found.formats) {
    text += fmt::format("; {} {}", count, format);
  }
  return text;
}

void print_unreadable(const std::vector<data::UnreadableImage>& images) {
  constexpr std::size_t kMost = 20;
  if (images.empty()) return;
  write_out("  unreadable     {} of the examined images:\n", images.size());
  for (std::size_t i = 0; i < std::min(images.size(), kMost); ++i) {
    write_out("    {}\n", on_one_line(images[i].why));
  }
  if (images.size() > kMost) {
    write_out("    and {} more, which --json lists\n", images.size() - kMost);
  }
}

void print_split(const Examined& split) {
  const data::DatasetStatistics& found = split.statistics;
  const std::int64_t channels = split.set->image_shape()[0];
  write_out("\n{}: {} of {} images examined\n", split.name, found.examined, split.set->size());
  write_out("  pixels         heights {}; widths {}; {} channel{}{}\n", spread_text(found.heights),
            spread_text(found.widths), channels, channels == 1 ? "" : "s", formats_of(found));
  write_out("  statistics      data::Normalization{}\n", data::text_of(found.normalization));
  write_out("  used to train   data::Normalization{}\n", data::text_of(split.set->normalization()));
  print_unreadable(found.unreadable);
}

Examined examine(const DataOptions& options, data::Split split) {
  const char* const name = split == data::Split::kTrain ? "train" : "test";
  auto set = data::open_as_stored(options.run.data, split);
  auto found = data::statistics_of(*set, {.limit = options.limit});
  return {name, std::move(set), std::move(found)};
}

std::vector<data::Split> splits_of(const std::string& name) {
  using data::Split;
  if (name == "both") return {Split::kTrain, Split::kTest};
  if (name == "train") return {Split::kTrain};
  check_arg(name == "test", "--split", "unknown split `", name,
            "`. Known splits are train, test and both");
  return {Split::kTest};
}

void check_data_options(const DataOptions& options) {
  const NamedFile json{"--json", options.json};
  const NamedFile out{"--out", options.out};
  check_distinct({json, out});
  check_outputs({json, out}, {.data = options.run.data});
  check_arg(options.limit.value_or(1) >= 1, "--limit",
            "must be at least 1: ", options.limit.value_or(1));
  check_arg(options.out.empty() || !data::names_tokens(options.run.data), "--out",
            "draws images, and ", options.run.data, " has tokens. Leave it out");
  check_sheet_options(options.sheet);
  check_arg(!options.out.empty() || !options.sheet.is_given, "--out",
            "is missing: --pictures, --image-size and --seed say what the picture shows. Give a "
            "file, or leave them out");
}

void write_sheet(const DataOptions& options, const Sheet& sheet) {
  on_the_way([&] {
    io::write_file(options.out, io::encode_png(sheet.picture.pixels, sheet.picture.shape), "--out");
  });
  write_out("\n{}: {}\n", on_one_line(options.out), on_one_line(sheet.caption));
}

void run_data(const DataOptions& options) {
  check_data_options(options);
  const std::vector<data::Split> splits = splits_of(options.split);
  apply_machine_options(options);
  if (!options.out.empty()) io::check_writable(options.out, "--out");
  JsonLines json(options.json);
  if (data::names_tokens(options.run.data)) {
    return show_tokens(options.run.data, splits, options.limit, json);
  }
  // First, since it may reject its options.
  const Sheet sheet =
      options.out.empty() ? Sheet() : make_sheet(options.run.data, splits.front(), options.sheet);
  std::vector<Examined> examined;
  for (const data::Split split : splits) {
    examined.push_back(examine(options, split));
    json.write(data_event(options.run.data, examined.back()));
  }
  print_classes(examined);
  for (const Examined& split : examined) print_split(split);
  if (!options.out.empty()) write_sheet(options, sheet);
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("data", "What a data set holds: classes, sizes, bad files, a picture");
  auto options = std::make_shared<DataOptions>();
  offer(command->add_option("spec", options->run.data, std::string(data::kDatasetNames)),
        words_in(data::kDatasetNames))
      ->required();
  offer(command->add_option("--split", options->split, "train, test or both"),
        {"train", "test", "both"})
      ->capture_default_str();
  command->add_option("--limit", options->limit, "Images or tokens to examine of each split (all)");
  offer_files(command->add_option("--out", options->out, "Write a picture of images (PNG)"));
  add_sheet_options(*command, options->sheet);
  command->add_option("--threads", options->threads, "Threads to use (all cores)");
  offer_files(command->add_option("--json", options->json,
                                  "Write the results to this file, a line per split"));
  command->callback([options] { run_data(*options); });
}

}  // namespace mezzo::cli
