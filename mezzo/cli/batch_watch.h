// Times the batches of an evaluation and shows their progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::cli {

// Times batches from end to end, including the wait for their images, and shows a progress bar on a
// terminal.
class BatchWatch {
 public:
  BatchWatch(std::string label, std::int64_t batches, bool quiet);
  ~BatchWatch();
  BatchWatch(const BatchWatch&) = delete;
  BatchWatch& operator=(const BatchWatch&) = delete;

  // Marks a batch as done.
  void next();

  double median_ms() const;
  double total_ms() const;

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  std::string label_;
  std::int64_t batches_;
  bool is_shown_;
  bool line_open_ = false;
  std::vector<double> ms_;
  Clock::time_point last_ = Clock::now();
  Clock::time_point last_draw_{};
};

}  // namespace mezzo::cli
