// Writes event files, which TensorBoard displays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

// The distribution of values. Bucket i counts those in (limits[i - 1], limits[i]], and the first
// bucket those up to limits[0].
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits{};
  std::vector<double> counts{};
};

// The histogram of a tensor's finite elements, in TensorFlow's buckets: from 1e-12 to 1e20, each
// 10 % wider than the one before, and mirrored for negative values. Zeros count among the smallest
// negative values.
Histogram histogram_of(const Tensor& tensor);

struct EventWriterOptions {
  std::string suffix{};             // at the end of the file's name
  std::function<double()> clock{};  // seconds since 1970; empty: the system's
  bool flush_each = true;           // write every event at once; otherwise in pieces of 64 KiB
  // The step from which the run resumes. What other files of the folder hold from it on is not
  // shown.
  std::optional<std::int64_t> resume_step{};
};

// Appends events to a new file `events.out.tfevents.SECONDS.HOST.PID.COUNT` in a folder, which
// holds one run. Flushed events survive the death of the process; a file that ends in the middle of
// an event is readable up to there. Not thread-safe.
//
// A tag is a name such as `train/loss`. Functions throw ArgumentError for tags and texts that are
// empty or not UTF-8, and FileError if the file cannot be written, for example on a full disk. The
// file then ends after its last whole event, and the next flush writes what is missing.
class EventWriter {
 public:
  // Makes the folder if needed.
  explicit EventWriter(const std::string& folder, EventWriterOptions options = {});
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  // Flushes; a failure is a warning in the log, unless the last flush has thrown already.
  ~EventWriter();

  // Without a wall time, the clock's is used. The value is stored as f32.
  void add_scalar(std::string_view tag, double value, std::int64_t step,
                  std::optional<double> wall_time = std::nullopt);
  // Throws ArgumentError unless there are as many counts as limits, at least one, the limits
  // increase, and no count is negative.
  void add_histogram(std::string_view tag, const Histogram& histogram, std::int64_t step,
                     std::optional<double> wall_time = std::nullopt);
  // `text` is Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step,
                std::optional<double> wall_time = std::nullopt);
  // `png` holds the bytes of a PNG file; throws ArgumentError if it does not begin like one.
  void add_image(std::string_view tag, std::span<const std::byte> png, std::int64_t step,
                 std::optional<double> wall_time = std::nullopt);

  // Hands all events to the system.
  void flush();

  const std::string& path() const { return path_; }

 private:
  void create(const std::string& folder);
  [[noreturn]] void fail_write(int error);
  double now() const;
  void add_record(std::string_view data);
  void add_summary(std::string_view value, std::int64_t step, std::optional<double> wall_time);

  EventWriterOptions options_;
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;   // of the file, in whole events
  bool has_rest_ = false;    // part of an event follows them
  std::string pending_;      // whole events that are not in the file yet
  bool has_thrown_ = false;  // about pending events
};

}  // namespace mezzo::io
