#include "mezzo/graph/recorded_segment.h"

#include <gtest/gtest.h>

namespace mezzo::graph {
namespace {

class Launches final : public Recording {
 public:
  explicit Launches(int& count) : count_(count) {}
  ~Launches() override { count_ = -1; }
  void launch() override { ++count_; }

 private:
  int& count_;
};

Circumstances at(int& place) { return {.places = {&place}}; }

class RecordedSegmentTest : public testing::Test {
 protected:
  // Records, and launches that many times.
  void use(int times) {
    segment_.keep(Ref<Recording>(new Launches(launches_)), at(here_));
    launches_ = 0;
    for (int i = 0; i < times; ++i) segment_.launch();
  }

  RecordedSegment segment_{{2, 5}, {7}};
  int here_ = 0;
  int there_ = 0;
  int launches_ = 0;
};

TEST_F(RecordedSegmentTest, HoldsWhileNothingMoves) {
  EXPECT_FALSE(segment_.holds(at(here_)));
  use(3);
  EXPECT_EQ(launches_, 3);
  EXPECT_TRUE(segment_.holds(at(here_)));
  EXPECT_FALSE(segment_.holds(at(there_)));
  Circumstances rounded = at(here_);
  rounded.tf32 = true;
  EXPECT_FALSE(segment_.holds(rounded));
  Circumstances moved = at(here_);
  moved.moves = 1;
  EXPECT_FALSE(segment_.holds(moved));
  segment_.drop();
  EXPECT_FALSE(segment_.holds(at(here_)));
  EXPECT_EQ(launches_, -1) << "the recording must be gone before the next is made";
}

TEST_F(RecordedSegmentTest, IsRecordedAgainAsLongAsThatPays) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(segment_.may_record());
    use(10);
    segment_.drop();
  }
  EXPECT_TRUE(segment_.may_record());
}

TEST_F(RecordedSegmentTest, IsGivenUpWhenItsInputsKeepMoving) {
  for (int i = 0; i < 3; ++i) {
    use(9);
    segment_.drop();
    segment_.drop();  // empty, so it does not count
  }
  EXPECT_TRUE(segment_.may_record());
  use(10);  // it pays off: earlier failures are forgotten
  segment_.drop();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(segment_.may_record());
    use(1);
    segment_.drop();
  }
  EXPECT_FALSE(segment_.may_record());
}

}  // namespace
}  // namespace mezzo::graph
