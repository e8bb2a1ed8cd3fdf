// What subcommands write: JSON lines, a progress bar, tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "mezzo/train/run.h"

namespace mezzo::cli {

using Json = nlohmann::ordered_json;

// A file of JSON objects, one per line, each written out at once. Does nothing without a path.
class JsonLines {
 public:
  // `append`: keep the lines that are there, but not a last one without an end. Throws FileError if
  // the file cannot be written, or exists and is no log. It stays as it is until the first line is
  // written.
  explicit JsonLines(const std::string& path, bool append = false);
  // Keeps the first event of a run until there is another one: a run that is refused before its
  // first step leaves the log of an earlier one alone.
  void begin(const Json& event);
  void write(const Json& event);

 private:
  void open();
  void put(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::string first_;  // a line that waits
  bool append_ = false;
  bool is_open_ = false;
};

// What a start event says besides its network and its machine: of images; of a training step; of
// training on images, both and more.
Json data_fields(const train::RunOptions& options);
Json step_fields(const train::RunOptions& options);
Json training_fields(const train::RunOptions& options);
// The configuration of a run, with the fields that are its command's own, and the machine it runs
// on.
Json start_event(const std::string& command, const train::RunOptions& options, const Json& own);
// What all commands measure that run a network on images.
struct Measured {
  double step_ms_median = 0;  // of an evaluation: of its batches
  double images_per_s = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::optional<train::Evaluation> test{};  // null if nothing was evaluated
};
// How every result begins: what it is of.
Json begin_result(const train::RunOptions& options);
// The outcome of such a command, with the fields that are its own.
Json result_event(const train::RunOptions& options, const Measured& measured, const Json& own);
// That of a run. `with_data`: loss and accuracy were measured; else they are null.
Json result_event(const train::RunOptions& options, const train::RunResult& result, bool with_data);
// Instead of that, of a run that a signal ended.
Json stopped_event(const train::RunResult& result);

// Shows steps on a terminal as a bar, elsewhere as a line per epoch, and writes events.
class Progress final : public train::RunObserver {
 public:
  Progress(JsonLines& json, std::string label, bool quiet);
  ~Progress() override;
  void on_start(std::int64_t total_steps) override;
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;

 private:
  void draw(const train::StepEvent& event);
  void clear_line();

  JsonLines& json_;
  std::string label_;
  bool quiet_;
  bool is_terminal_;
  bool line_open_ = false;
  std::int64_t total_steps_ = 0;
  std::int64_t first_step_ = 0;  // that an earlier part of the run came to
  std::chrono::steady_clock::time_point start_{};
  std::chrono::steady_clock::time_point last_draw_{};
};

// Rows of cells under a header; columns of numbers are aligned to the right, others to the left.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

// A loss as it is printed: `nan`, where fmt would print `-nan` if the bit of the sign is set.
double without_sign(double loss);

// `[======            ] 10/30`
std::string bar(std::int64_t done, std::int64_t total);
constexpr std::chrono::milliseconds kRedraw{100};  // between two states of a bar

// `1.25 GB`, `12.3 MB`.
std::string format_bytes(std::int64_t bytes);

}  // namespace mezzo::cli
