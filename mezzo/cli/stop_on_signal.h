// Lets a signal end a training run without losing its work.
#pragma once

namespace mezzo::cli {

// Starts a thread that waits for SIGINT and SIGTERM. It ends the process as these signals usually
// do, or asks a run to stop. Must be called before other threads start, since all of them must
// block these signals. Signals that the process ignores stay ignored.
//
// A signal handler would not be safe. oneDNN's matrix products keep a heap address in the stack
// pointer (seen in 2.6.3, with AVX2), and the kernel would write the handler's frame there, over
// the memory below.
void wait_for_signals();

// While it exists, the first of these signals only asks the run to end after its current step. A
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
