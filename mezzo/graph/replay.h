// Replaying parts of a program as recordings: when they are made, and what becomes of them.
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

// Whether parts of programs are recorded on devices whose back ends can.
struct RecordOptions {
  // The environment variable MEZZO_RECORD=0 switches it off for all.
  bool enabled = true;
  // What records the work of a device, for tests; null: its back end.
  std::function<std::unique_ptr<WorkRecorder>(Device)> make_recorder{};
};

// A recorder as the options say; null for none, and for devices that have none.
std::unique_ptr<WorkRecorder> make_recorder(Device device, const RecordOptions& options);

// The first runs of a thread are eager: in them kernels are chosen and measured, libraries loaded
// and memory cached, none of which can be done while work is recorded.
class Replay {
 public:
  explicit Replay(std::unique_ptr<WorkRecorder> recorder) : recorder_(std::move(recorder)) {}

  // At the begin of a run: true if recordings are used in it. Not where somebody listens to
  // kernels, who would hear of none. Lets go of recordings of another thread.
  bool begin_run();
  // After a run that came to its end.
  void end_run();

  bool is_planned() const { return !parts_.empty(); }
  // Finds the segments. `nodes`: the parts' nodes, which stay where they are.
  void plan(std::vector<Part> parts, std::span<const Node* const> nodes);

  // The segment that begins there, null if none does.
  RecordedSegment* segment_at(std::size_t first);
  // Records what `work` queues for the segment. False if that failed: then the segment is split at
  // `at`, the node that `work` had come to, and is to be run eagerly this time.
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
  std::vector<RecordedSegment> segments_;  // in their order
  std::uint64_t thread_ = 0;               // that the eager runs are counted of
  int eager_runs_ = 0;
};

}  // namespace mezzo::graph
