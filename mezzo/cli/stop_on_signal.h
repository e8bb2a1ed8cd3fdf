// Ending a training run from outside without losing it.
#pragma once

namespace mezzo::cli {

// From now on SIGINT and SIGTERM are waited for in a thread of their own, which ends the process as
// they usually do, or asks a run to stop. To be called before there are other threads: all of them
// block these signals. Those that the process ignores stay ignored.
//
// No handler may run instead. oneDNN's matrix products keep an address on the heap in the stack
// pointer (seen in 2.6.3, with AVX2), and the kernel would write the frame of a handler there, over
// whatever lies below.
void wait_for_signals();

// While it exists, the first of these signals only asks the run to end after its current step; a
// second one ends the process at once, as usual.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static bool was_asked();
};

}  // namespace mezzo::cli
