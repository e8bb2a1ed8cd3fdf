#include "mezzo/cli/output.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "mezzo/cli/print.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/tf32.h"
#include "mezzo/train/configuration.h"

namespace mezzo::cli {
namespace {

std::string format_seconds(double seconds) {
  const long whole = std::lround(seconds);
  return whole < 60 ? fmt::format("{}s", whole) : fmt::format("{}m{:02}s", whole / 60, whole % 60);
}

bool is_number(const std::string& cell) {
  return cell.find_first_of("0123456789-") == 0 || cell == "nan" || cell == "inf";
}

// How wide a column is, and whether it holds numbers, which are aligned to the right.
struct Column {
  std::size_t width = 0;
  bool numbers = true;

  void add(const std::string& cell, bool is_header) {
    width = std::max(width, cell.size());
    if (!is_header && !is_number(cell)) numbers = false;
  }
};

std::string format_row(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += i == 0 ? "" : "  ";
    text += columns[i].numbers ? fmt::format("{:>{}}", cells[i], columns[i].width)
                               : fmt::format("{:<{}}", cells[i], columns[i].width);
  }
  return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
}

// Paths and names may be any bytes, JSON is UTF-8.
std::string line_of(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Every line begins so, the first of a run that was killed as far as it came.
constexpr std::string_view kLineBegin = R"({"event":")";

// A name that was mistyped must not cost a file: logs are emptied, or go on behind their last line.
void check_is_log(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kLineBegin.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  if (!kLineBegin.starts_with(begin)) {
    fail<FileError>("json", path, ": exists and is no log of mezzo. Name another file");
  }
}

// Of a regular file; there is nothing to take out of others.
void drop_lines(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    std::filesystem::resize_file(path, 0, ignored);
  }
}

// A run that was killed while it wrote left a line without an end.
void drop_torn_line(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::int64_t>(file.tellg());
  std::int64_t whole = size;
  for (; whole > 0; --whole) {
    file.seekg(whole - 1);
    if (file.get() == '\n') break;
  }
  if (whole < size) {
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(whole), ignored);
  }
}

}  // namespace

JsonLines::JsonLines(const std::string& path, bool append) : path_(path), append_(append) {
  if (path.empty()) return;
  check_is_log(path);
  file_.open(path, std::ios::app);
  if (!file_)
    fail<FileError>("json", path, ": cannot be written. Name a file in a folder that exists");
}

void JsonLines::begin(const Json& event) { first_ = line_of(event); }

void JsonLines::open() {
  if (!std::exchange(is_open_, true)) append_ ? drop_torn_line(path_) : drop_lines(path_);
  if (!first_.empty()) put(std::exchange(first_, {}));
}

void JsonLines::write(const Json& event) {
  if (path_.empty()) return;
  open();
  put(line_of(event));
}

void JsonLines::put(const std::string& line) {
  file_ << line << std::endl;
  if (!file_) fail<DiskError>("json", path_, ": writing failed. Is the disk full?");
}

namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

std::optional<std::string> text_if_given(const train::LossScaling& scaling) {
  const std::string text = train::text_of(scaling);
  return text.empty() ? std::optional<std::string>() : text;
}

}  // namespace

Json data_fields(const train::RunOptions& options) {
  return {{"data", options.data}, {"image_size", options.image_size}, {"workers", options.workers}};
}

Json step_fields(const train::RunOptions& options) {
  return {{"recompute", options.recompute},
          {"graph", options.graph},
          {"lr", options.lr},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"label_smoothing", options.label_smoothing},
          {"loss_scale", or_null(text_if_given(options.loss_scale))},
          {"seed", options.seed}};
}

Json training_fields(const train::RunOptions& options) {
  Json fields = data_fields(options);
  fields.update(step_fields(options));
  fields.update({{"augment", options.augment},
                 {"epochs", options.epochs},
                 {"steps", or_null(options.steps)},
                 {"weights", options.weights},
                 {"zero_init_residual", options.zero_init_residual},
                 {"lr_schedule", train::name_of(options.schedule)},
                 {"options", train::configuration_of(options)}});
  return fields;
}

Json start_event(const std::string& command, const train::RunOptions& options, const Json& own) {
  Json event = {{"event", "start"},
                {"command", command},
                {"model", options.model},
                {"level", amp::name_of(options.policy.level)},
                {"dtype", name_of(options.policy.dtype())},
                {"keep_f32", options.precision.keep_float32},
                {"lower", options.precision.lower},
                {"keep_batchnorm_fp32", or_null(options.precision.keep_batchnorm_fp32)},
                {"batch_size", options.batch_size}};
  event.update(own);
  event.update({{"processes", options.process_count()},
                {"threads", num_threads()},
                {"device", concat(options.device)},
                {"tf32", is_tf32_allowed()},
                {"cpu", cpu_name()},
                {"avx512_bf16", cpu_features().avx512_bf16}});
  return event;
}

Json begin_result(const train::RunOptions& options) {
  return {{"event", "result"},
          {"model", options.model},
          {"level", amp::name_of(options.policy.level)},
          {"dtype", name_of(options.policy.dtype())}};
}

Json result_event(const train::RunOptions& options, const Measured& measured, const Json& own) {
  Json event = begin_result(options);
  event["batch_size"] = options.batch_size;
  event["step_ms_median"] = measured.step_ms_median;
  event["images_per_s"] = measured.images_per_s;
  event["peak_bytes"] = measured.peak_bytes;
  event["skipped_steps"] = measured.skipped_steps;
  event.update(own);
  event["accuracy"] = measured.test.has_value() ? Json(measured.test->accuracy) : Json();
  event["loss"] = measured.test.has_value() ? Json(measured.test->loss) : Json();
  return event;
}

Json result_event(const train::RunOptions& options, const train::RunResult& result,
                  bool with_data) {
  Measured measured{.step_ms_median = result.step_ms_median,
                    .images_per_s = result.images_per_s,
                    .peak_bytes = result.peak_bytes,
                    .skipped_steps = result.skipped_steps};
  Json own{{"steps", result.steps},
           {"step_ms_min", result.step_ms_min},
           {"step_ms_max", result.step_ms_max},
           {"forward_ms", result.forward_ms_median},
           {"backward_ms", result.backward_ms_median},
           {"update_ms", result.update_ms_median}};
  if (with_data) {
    measured.test = result.test;
    own["epochs"] = result.epochs;
    own["wait_ms"] = result.wait_ms_mean;
  }
  return result_event(options, measured, own);
}

Json stopped_event(const train::RunResult& result) {
  return {{"event", "stopped"}, {"step", result.steps}};
}

Progress::Progress(JsonLines& json, std::string label, bool quiet)
    : json_(json),
      label_(std::move(label)),
      quiet_(quiet),
      is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear_line(); }

void Progress::on_start(std::int64_t total_steps) {
  total_steps_ = total_steps;
  start_ = std::chrono::steady_clock::now();
}

void Progress::on_resume(const std::string& path, std::int64_t step) {
  first_step_ = step;
  json_.write({{"event", "resume"}, {"checkpoint", path}, {"step", step}});
  if (!quiet_) write_error("{}  goes on from {}, after step {}\n", label_, path, step);
}

void Progress::on_step(const train::StepEvent& event) {
  const amp::TrainStepResult& report = event.report;
  json_.write({{"event", "step"},
               {"step", event.step},
               {"epoch", event.epoch},
               {"loss", report.loss},
               {"lr", event.lr},
               {"scale", report.scale},
               {"found_inf", report.overflow || report.nonfinite_loss},
               {"skipped", report.skipped},
               {"first_bad", report.first_bad},
               {"ms", report.total_ms()},
               {"wait_ms", event.wait_ms}});
  if (!quiet_ && is_terminal_) draw(event);
}

void Progress::on_epoch(const train::EpochEvent& event) {
  json_.write({{"event", "epoch"},
               {"epoch", event.epoch},
               {"train_loss", event.train_loss},
               {"loss", event.test.loss},
               {"accuracy", event.test.accuracy},
               {"seconds", event.seconds}});
  if (quiet_) return;
  clear_line();
  write_error("{}  epoch {}: train loss {:.4f}, test loss {:.4f}, accuracy {:.2f} %, {}\n", label_,
              event.epoch, without_sign(event.train_loss), without_sign(event.test.loss),
              100 * event.test.accuracy, format_seconds(event.seconds));
}

void Progress::draw(const train::StepEvent& event) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_draw_ < kRedraw && event.step < total_steps_) return;
  last_draw_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  // By the steps of this part of a run that was resumed.
  const auto steps_done = static_cast<double>(event.step - first_step_);
  const auto steps_left = static_cast<double>(total_steps_ - event.step);
  write_error("\r\033[K{}  {}  loss {:.4f}  {:.1f} ms/step  {} left", label_,
              bar(event.step, total_steps_), without_sign(event.report.loss),
              event.report.total_ms(), format_seconds(elapsed / steps_done * steps_left));
  std::fflush(stderr);
  line_open_ = true;
}

void Progress::clear_line() {
  if (line_open_) write_error("\r\033[K");
  line_open_ = false;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    columns.resize(std::max(columns.size(), rows[r].size()));
    for (std::size_t i = 0; i < rows[r].size(); ++i) columns[i].add(rows[r][i], r == 0);
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += format_row(rows[r], columns);
    if (r > 0) continue;
    std::vector<std::string> rules;
    rules.reserve(columns.size());
    for (const Column& column : columns) rules.emplace_back(column.width, '-');
    text += format_row(rules, columns);
  }
  return text;
}

double without_sign(double loss) { return std::isnan(loss) ? std::fabs(loss) : loss; }

std::string bar(std::int64_t done, std::int64_t total) {
  constexpr std::int64_t kWidth = 24;
  const auto filled = static_cast<std::size_t>(done * kWidth / std::max<std::int64_t>(total, 1));
  return fmt::format("[{:<{}}] {}/{}", std::string(filled, '='), kWidth, done, total);
}

std::string format_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.1f} MB", value / 1e6);
}

}  // namespace mezzo::cli
