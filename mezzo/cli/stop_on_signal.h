// Ending a training run from outside without losing it.
#pragma once

namespace mezzo::cli {

// While it exists, the first SIGINT or SIGTERM only asks the run to end after its current step; a
// second one ends the process at once, as usual. Those that the process ignores stay ignored.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static bool was_asked();
};

}  // namespace mezzo::cli
