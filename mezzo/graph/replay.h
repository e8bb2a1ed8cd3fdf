// Replaying parts of a program as recordings: when they are made, used and dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/core/work_recorder.h"
#include "mezzo/graph/program.h"
#include "mezzo/graph/recorded_segment.h"

namespace mezzo::graph {

// Whether parts of programs are recorded, on devices whose back ends can.
struct RecordOptions {
  // The environment variable MEZZO_RECORD=0 disables it for all.
  bool enabled = true;
  // Makes the recorder of a device, for tests; null: its back end does.
  std::function<std::unique_ptr<WorkRecorder>(Device)> make_recorder{};
};

// Makes a recorder according to the options; null if disabled, and for devices without recorders.
std::unique_ptr<WorkRecorder> make_recorder(Device device, const RecordOptions& options);

// The first runs of a thread are eager: in them kernels are chosen and measured, libraries are
// loaded and memory is cached, which is not possible while work is recorded.
class Replay {
 public:
  explicit Replay(std::unique_ptr<WorkRecorder> recorder) : recorder_(std::move(recorder)) {}

  // Called at the beginning of a run: returns true if it uses recordings. It does not if a kernel
  // listener is active, which would not be notified. Drops recordings of another thread.
  bool begin_run();
  // Called after a run that was completed.
  void end_run();

  bool is_planned() const { return !parts_.empty(); }
  // Finds the segments. `nodes`: the nodes of the parts, which must keep their addresses.
  void plan(std::vector<Part> parts, std::span<const Node* const> nodes);

  // The segment that begins at `first`; null if there is none.
  RecordedSegment* segment_at(std::size_t first);
  // Records the work that `work` queues for the segment. If that fails, returns false and splits
  // the segment at `at`, the node that `work` had reached; the segment must then run eagerly this
  // time.
  bool record(RecordedSegment& segment, const Circumstances& now, const std::function<void()>& work,
              const std::size_t& at);

  std::span<const RecordedSegment> segments() const { return segments_; }

 private:
  void find_segments_within(Segment range, std::size_t place);
  std::vector<ValueId> reads_of(Segment range) const;
  void log_plan() const;

  std::unique_ptr<WorkRecorder> recorder_;
  std::vector<Part> parts_;
  std::vector<const Node*> nodes_;
  std::vector<RecordedSegment> segments_;  // in order
  std::uint64_t thread_ = 0;               // the thread whose eager runs are counted
  int eager_runs_ = 0;
};

}  // namespace mezzo::graph
