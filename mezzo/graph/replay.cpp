#include "mezzo/graph/replay.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::graph {
namespace {

constexpr int kEagerRuns = 2;  // the second run uses the copies that the first update has renewed

bool is_off_by_environment() {
  static const bool off = [] {
    const char* text = std::getenv("MEZZO_RECORD");  // NOLINT(concurrency-mt-unsafe)
    return text != nullptr && std::string_view(text) == "0";
  }();
  return off;
}

}  // namespace

std::unique_ptr<WorkRecorder> make_recorder(Device device, const RecordOptions& options) {
  if (!options.enabled || is_off_by_environment()) return nullptr;
  if (options.make_recorder) return options.make_recorder(device);
  DeviceBackend* backend = find_device_backend(device.type);
  return backend != nullptr ? backend->make_recorder(device) : nullptr;
}

bool Replay::begin_run() {
  if (thread_ != this_thread()) {
    // Recordings may need what their thread has chosen and loaded, which is freed with the thread.
    for (RecordedSegment& segment : segments_) segment.drop();
    thread_ = this_thread();
    eager_runs_ = 0;
  }
  return eager_runs_ >= kEagerRuns && detail::kernel_listener == nullptr;
}

void Replay::end_run() {
  if (eager_runs_ < kEagerRuns) ++eager_runs_;
}

void Replay::plan(std::vector<Part> parts, std::span<const Node* const> nodes) {
  parts_ = std::move(parts);
  nodes_.assign(nodes.begin(), nodes.end());
  find_segments_within({0, parts_.size()}, 0);
  log_plan();
}

void Replay::find_segments_within(Segment range, std::size_t place) {
  const auto parts = std::span<const Part>(parts_).subspan(range.first, range.last - range.first);
  std::vector<RecordedSegment> found;
  for (const Segment& segment : find_segments(parts)) {
    const Segment moved{range.first + segment.first, range.first + segment.last};
    found.emplace_back(moved, reads_of(moved));
  }
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(place),
                   std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
}

// All values that the calls read, even those whose addresses should never change: host work may
// replace gradients, and a parameter's owner may replace its memory.
std::vector<ValueId> Replay::reads_of(Segment range) const {
  std::set<ValueId> reads;
  std::set<ValueId> made;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (parts_[i] != Part::kCall) continue;
    for (const ValueId input : nodes_[i]->inputs) {
      if (input != kNoValue && !made.contains(input)) reads.insert(input);
    }
    made.insert(nodes_[i]->outputs.begin(), nodes_[i]->outputs.end());
  }
  return {reads.begin(), reads.end()};
}

RecordedSegment* Replay::segment_at(std::size_t first) {
  const auto found = std::ranges::lower_bound(
      segments_, first, {}, [](const RecordedSegment& segment) { return segment.range().first; });
  return found != segments_.end() && found->range().first == first ? &*found : nullptr;
}

bool Replay::record(RecordedSegment& segment, const Circumstances& now,
                    const std::function<void()>& work, const std::size_t& at) {
  try {
    segment.keep(recorder_->record(work), now);
    return true;
  } catch (const Error& error) {
    logging::write(logging::Topic::kDispatch, "graph: a recording was refused: ", error.what());
  }
  const Segment range = segment.range();
  // The recording was refused as a whole: no single node is to blame, so all are left out.
  const bool is_whole = at >= range.last;
  for (std::size_t i = is_whole ? range.first : at; i < (is_whole ? range.last : at + 1); ++i) {
    if (parts_[i] == Part::kCall) parts_[i] = Part::kRefused;
  }
  const auto place = static_cast<std::size_t>(&segment - segments_.data());
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(place));
  find_segments_within(range, place);
  log_plan();
  return false;
}

void Replay::log_plan() const {
  if (!logging::is_enabled(logging::Topic::kDispatch)) return;
  std::vector<Segment> ranges;
  for (const RecordedSegment& segment : segments_) ranges.push_back(segment.range());
  logging::write(logging::Topic::kDispatch, "graph: ", describe_segments(parts_, ranges));
}

}  // namespace mezzo::graph
