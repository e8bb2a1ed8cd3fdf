#include "mezzo/cli/batch_watch.h"

#include <numeric>
#include <utility>

#include <unistd.h>

#include "mezzo/cli/print.h"
#include "mezzo/cli/progress.h"
#include "mezzo/train/median.h"

namespace mezzo::cli {

BatchWatch::BatchWatch(std::string label, std::int64_t batches, bool quiet)
    : label_(std::move(label)),
      batches_(batches),
      is_shown_(!quiet && isatty(STDERR_FILENO) == 1) {}

BatchWatch::~BatchWatch() {
  if (line_open_) write_error("\r\033[K");
}

void BatchWatch::next() {
  const Clock::time_point now = Clock::now();
  ms_.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
  if (is_shown_ && now - last_draw_ >= kRedraw) draw(now);
}

double BatchWatch::median_ms() const { return train::median(ms_); }

double BatchWatch::total_ms() const { return std::accumulate(ms_.begin(), ms_.end(), 0.0); }

void BatchWatch::draw(Clock::time_point now) {
  last_draw_ = now;
  draw_line(fmt::format("{}  {}", label_, bar(static_cast<std::int64_t>(ms_.size()), batches_)));
  line_open_ = true;
}

}  // namespace mezzo::cli
