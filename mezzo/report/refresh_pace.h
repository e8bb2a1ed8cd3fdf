// When the page of a run that goes on is written again.
#pragma once

#include <algorithm>
#include <chrono>

namespace mezzo::report {

// A page is due when two seconds have passed since the last one, and a hundred times what that one
// took: writing takes at most about a hundredth of the run's time, however long a page takes. The
// first one is due after two seconds, so that a short run writes none before its end.
class RefreshPace {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RefreshPace(Clock::time_point start) : last_(start) {}

  bool is_due(Clock::time_point now) const { return now - last_ >= wait_; }

  // The page was written, or could not be, between these times.
  void wrote(Clock::time_point begin, Clock::time_point end) {
    wait_ = std::max<Clock::duration>(kLeast, kFactor * (end - begin));
    last_ = end;
  }

 private:
  static constexpr std::chrono::seconds kLeast{2};
  static constexpr int kFactor = 100;

  Clock::time_point last_;
  Clock::duration wait_ = kLeast;
};

}  // namespace mezzo::report
