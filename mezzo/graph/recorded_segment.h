// A segment of a program from run to run: its recording, and whether that still holds.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/work_recorder.h"
#include "mezzo/graph/program.h"
#include "mezzo/graph/segments.h"

namespace mezzo::graph {

// What a recording holds fast besides the program.
struct Circumstances {
  std::vector<const void*> places{};  // of the values that it reads
  bool tf32 = false;                  // whether f32 products may be rounded
  // A network that comes back to a device may lie where it did, and the lists and flags of its
  // update elsewhere: those are made anew on each device and are no values of the program.
  std::uint64_t moves = 0;

  bool operator==(const Circumstances&) const = default;
};

class RecordedSegment {
 public:
  // `reads`: the values that the segment reads and does not make.
  RecordedSegment(Segment range, std::vector<ValueId> reads)
      : range_(range), reads_(std::move(reads)) {}

  const Segment& range() const { return range_; }
  const std::vector<ValueId>& reads() const { return reads_; }

  // True if there is a recording that was made under these circumstances.
  bool holds(const Circumstances& now) const { return recording_ && made_under_ == now; }
  // False if recordings went stale time and again before they had paid: then making more of them
  // would cost more than it brings.
  bool may_record() const { return wasted_ < kMostWasted; }
  // Lets go of a recording that does not hold any more, before the next is made.
  void drop();
  void keep(Ref<Recording> recording, Circumstances made_under);
  void launch();

 private:
  static constexpr int kMostWasted = 4;
  static constexpr int kLaunchesToPay = 10;

  Segment range_;
  std::vector<ValueId> reads_;
  Ref<Recording> recording_;
  Circumstances made_under_;
  int launches_ = 0;  // of this recording, as far as they are counted
  int wasted_ = 0;    // recordings in a row that did not pay
};

}  // namespace mezzo::graph
