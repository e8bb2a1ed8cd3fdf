// A recorder for the CPU, where nothing is queued: it stores the work and runs it in each launch.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/graph/replay.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::graph {

inline constexpr int kEager = 2;  // runs before the first recording

// The calls that recorders received.
struct RecorderLog {
  int recorders = 0;
  int recordings = 0;
  int launches = 0;
  // If set, the number of kernels after which the next recording is refused. The recorder has run
  // the work up to there, which must do no harm: calls may run twice, updates must not.
  std::optional<int> refuses_after{};
  bool refuses_all = false;
};

class FakeRecorder final : public WorkRecorder {
 public:
  explicit FakeRecorder(RecorderLog& log) : log_(log) { ++log.recorders; }

  Ref<Recording> record(const std::function<void()>& work) override {
    if (log_.refuses_all) fail<UnsupportedError>("fake", "no work is recorded");
    if (log_.refuses_after.has_value()) {
      RefuseKernel refuse(*std::exchange(log_.refuses_after, std::nullopt));
      const ListenToKernels listening(refuse);
      work();
    }
    ++log_.recordings;
    return Ref<Recording>(new Kept(log_, work));
  }

 private:
  class Kept final : public Recording {
   public:
    Kept(RecorderLog& log, std::function<void()> work) : log_(log), work_(std::move(work)) {}
    void launch() override {
      ++log_.launches;
      work_();
    }

   private:
    RecorderLog& log_;
    std::function<void()> work_;
  };

  class RefuseKernel final : public KernelListener {
   public:
    explicit RefuseKernel(int after) : left_(after) {}
    void on_run(const KernelWork& work, double /*ms*/) override {
      if (left_-- == 0) fail<UnsupportedError>("fake", work.op, " is not recorded");
    }

   private:
    int left_;
  };

  RecorderLog& log_;
};

inline RecordOptions recorded_in(RecorderLog& log) {
  return {.make_recorder = [&log](Device) { return std::make_unique<FakeRecorder>(log); }};
}

}  // namespace mezzo::graph
