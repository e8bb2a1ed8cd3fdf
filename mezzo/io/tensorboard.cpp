#include "mezzo/io/tensorboard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/tensorboard_summary.h"

namespace mezzo::io {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 16;
constexpr std::size_t kSecondsWidth = 10;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text(name);
  std::ranges::replace(text, '/', '-');
  return text;
}

// The part that makes a file's name unique.
std::string unique_part(double wall_time) {
  static std::atomic<std::int64_t> count{0};
  const std::string seconds = concat(static_cast<std::int64_t>(wall_time));
  const std::string zeros(kSecondsWidth - std::min(kSecondsWidth, seconds.size()), '0');
  return concat(zeros, seconds, ".", host_name(), ".", ::getpid(), ".", count++);
}

}  // namespace

EventWriter::EventWriter(const std::string& folder, EventWriterOptions options)
    : options_(std::move(options)) {
  create(folder);
  try {
    add_record(version_event(now()));
    if (options_.resume_step) add_record(resume_event(now(), *options_.resume_step));
  } catch (...) {  // no destructor will run
    static_cast<void>(close_file(file_, path_));
    throw;
  }
}

EventWriter::~EventWriter() {
  const bool was_told = has_thrown_;
  try {
    flush();
  } catch (const FileError& error) {
    if (!was_told) logging::write(logging::Topic::kWarning, "events are lost: ", error.what());
  }
  static_cast<void>(close_file(file_, path_));
}

void EventWriter::add_scalar(std::string_view tag, double value, std::int64_t step,
                             std::optional<double> wall_time) {
  add_summary(scalar_value(tag, static_cast<float>(value)), step, wall_time);
}

void EventWriter::add_histogram(std::string_view tag, const Histogram& histogram, std::int64_t step,
                                std::optional<double> wall_time) {
  add_summary(histogram_value(tag, histogram), step, wall_time);
}

void EventWriter::add_text(std::string_view tag, std::string_view text, std::int64_t step,
                           std::optional<double> wall_time) {
  add_summary(text_value(tag, text), step, wall_time);
}

void EventWriter::add_image(std::string_view tag, std::span<const std::byte> png, std::int64_t step,
                            std::optional<double> wall_time) {
  add_summary(image_value(tag, png), step, wall_time);
}

void EventWriter::flush() {
  // A partly written event would make everything after it unreadable, so it is cut off first.
  if (has_rest_) {
    if (const int error = truncate_file(file_, path_, size_); error != 0) fail_write(error);
    has_rest_ = false;
  }
  const int error = write_all(file_, path_, std::as_bytes(std::span(pending_)));
  if (error != 0) {
    has_rest_ = truncate_file(file_, path_, size_) != 0;
    fail_write(error);
  }
  size_ += pending_.size();
  pending_.clear();
  has_thrown_ = false;
}

void EventWriter::fail_write(int error) {
  has_thrown_ = true;
  fail_file(kTensorboardOp, path_, "cannot be written", error);
}

void EventWriter::create(const std::string& folder) {
  make_folders(folder, kTensorboardOp);
  int error = EEXIST;
  while (error == EEXIST) {
    const std::string name = concat("events.out.tfevents.", unique_part(now()), options_.suffix);
    path_ = (std::filesystem::path(folder) / name).string();
    error = create_file(path_, file_);
  }
  if (error != 0) fail_file(kTensorboardOp, path_, "cannot be created", error);
}

double EventWriter::now() const {
  if (options_.clock) return options_.clock();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_1970).count();
}

void EventWriter::add_record(std::string_view data) {
  pending_ += frame_event(data);
  has_thrown_ = false;
  if (options_.flush_each || pending_.size() >= kBuffer) flush();
}

void EventWriter::add_summary(std::string_view value, std::int64_t step,
                              std::optional<double> wall_time) {
  add_record(summary_event(wall_time ? *wall_time : now(), step, value));
}

}  // namespace mezzo::io
