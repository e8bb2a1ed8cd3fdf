// A segment of a program between runs: its recording, and whether that is still valid.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/work_recorder.h"
#include "mezzo/graph/program.h"
#include "mezzo/graph/segments.h"

namespace mezzo::graph {

// The conditions besides the program that a recording depends on.
struct Circumstances {
  std::vector<const void*> places{};  // addresses of the values that it reads
  bool tf32 = false;                  // whether f32 products may be rounded to TF32
  // A network that returns to a device may get its old addresses, but the lists and flags of its
  // update get new ones: they are made again on each device and are not values of the program.
  std::uint64_t moves = 0;

  bool operator==(const Circumstances&) const = default;
};

class RecordedSegment {
 public:
  // `reads`: the values that the segment reads but does not make.
  RecordedSegment(Segment range, std::vector<ValueId> reads)
      : range_(range), reads_(std::move(reads)) {}

  const Segment& range() const { return range_; }
  const std::vector<ValueId>& reads() const { return reads_; }

  // True if there is a recording that was made under these conditions.
  bool holds(const Circumstances& now) const { return recording_ && made_under_ == now; }
  // False if recordings repeatedly became invalid before they paid off: then further ones would
  // cost more than they save.
  bool may_record() const { return wasted_ < kMostWasted; }
  // Drops an invalid recording before the next one is made.
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
  int launches_ = 0;  // launches of this recording, up to the number that matters
  int wasted_ = 0;    // consecutive recordings that did not pay off
};

}  // namespace mezzo::graph
