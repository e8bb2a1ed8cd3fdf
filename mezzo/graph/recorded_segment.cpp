#include "mezzo/graph/recorded_segment.h"

#include <utility>

namespace mezzo::graph {

void RecordedSegment::drop() {
  if (!recording_) return;
  recording_ = nullptr;
  wasted_ = launches_ < kLaunchesToPay ? wasted_ + 1 : 0;
}

void RecordedSegment::keep(Ref<Recording> recording, Circumstances made_under) {
  recording_ = std::move(recording);
  made_under_ = std::move(made_under);
  launches_ = 0;
}

void RecordedSegment::launch() {
  recording_->launch();
  if (launches_ < kLaunchesToPay) ++launches_;
}

}  // namespace mezzo::graph
