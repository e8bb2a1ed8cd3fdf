// OneRun: a guard that allows one run of a step at a time.
#pragma once

#include <atomic>

#include "mezzo/core/error.h"

namespace mezzo::graph {

// Exists during a run. A second run would overwrite the results of the first.
class OneRun {
 public:
  // Throws ArgumentError if a run is in progress. The message begins with `op`.
  OneRun(std::atomic<bool>& is_running, const char* op) : is_running_(is_running) {
    check_arg(!is_running.exchange(true), op,
              "the step was called while it was running, by another thread or by itself. Use one "
              "caller at a time, or one step per caller");
  }
  ~OneRun() { is_running_ = false; }
  OneRun(const OneRun&) = delete;
  OneRun& operator=(const OneRun&) = delete;

 private:
  std::atomic<bool>& is_running_;
};

}  // namespace mezzo::graph
