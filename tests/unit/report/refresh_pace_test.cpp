#include "mezzo/report/refresh_pace.h"

#include <gtest/gtest.h>

namespace mezzo::report {
namespace {

using std::chrono::milliseconds;
using Time = RefreshPace::Clock::time_point;

TEST(RefreshPace, ThePageIsDueAfterTwoSeconds) {
  const Time start{};
  RefreshPace pace(start);
  EXPECT_FALSE(pace.is_due(start));
  EXPECT_FALSE(pace.is_due(start + milliseconds(1999)));
  EXPECT_TRUE(pace.is_due(start + milliseconds(2000)));
  pace.wrote(start + milliseconds(2000), start + milliseconds(2010));
  EXPECT_FALSE(pace.is_due(start + milliseconds(4009)));
  EXPECT_TRUE(pace.is_due(start + milliseconds(4010)));
}

TEST(RefreshPace, APageThatTakesLongIsWrittenLessOften) {
  const Time start{};
  RefreshPace pace(start);
  pace.wrote(start, start + milliseconds(100));
  EXPECT_FALSE(pace.is_due(start + milliseconds(10'000)));
  EXPECT_TRUE(pace.is_due(start + milliseconds(10'100)));
}

// Whatever a page takes, all of them take about a hundredth of the time.
TEST(RefreshPace, TakesAHundredthOfTheTime) {
  for (const int cost : {1, 25, 400}) {
    const Time start{};
    RefreshPace pace(start);
    milliseconds written{0};
    for (Time now = start; now < start + std::chrono::minutes(10); now += milliseconds(10)) {
      if (!pace.is_due(now)) continue;
      pace.wrote(now, now + milliseconds(cost));
      written += milliseconds(cost);
      now += milliseconds(cost);
    }
    EXPECT_GT(written, milliseconds(0));
    EXPECT_LE(written, milliseconds(6000 + cost)) << cost;
  }
}

}  // namespace
}  // namespace mezzo::report
