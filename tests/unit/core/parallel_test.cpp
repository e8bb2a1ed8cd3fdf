#include "mezzo/core/parallel.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

// Runs with that many threads, and restores the previous number.
class Parallel : public ::testing::TestWithParam<int> {
  test::Threads guard_{GetParam()};
};

TEST_P(Parallel, CoversTheRangeExactlyOnce) {
  for (const std::int64_t n : {0, 1, 2, 3, 7, 64, 1000, 1001}) {
    for (const std::int64_t grain : {0, 1, 3, 1000, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
      parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1) << n << " by " << grain;
    }
  }
}

TEST_P(Parallel, NegativeCountsDoNothing) {
  parallel_for(-5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST_P(Parallel, RethrowsWhatABodyThrows) {
  const auto run = [](std::int64_t bad) {
    parallel_for(100, 1, [bad](std::int64_t begin, std::int64_t end) {
      if (begin <= bad && bad < end) throw std::runtime_error("bad");
    });
  };
  for (const std::int64_t bad : {0, 50, 99}) EXPECT_THROW(run(bad), std::runtime_error);
  EXPECT_NO_THROW(run(100));
}

// Whichever thread fails first.
TEST_P(Parallel, RethrowsWhatTheFirstOfSeveralRangesThrows) {
  const auto run = [] {
    parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
      if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw begin;
    });
  };
  try {
    run();
    FAIL();
  } catch (const std::int64_t begin) {
    EXPECT_EQ(begin, 0);
  }
}

TEST_P(Parallel, NestedLoopsRunOnTheirThread) {
  std::atomic<std::int64_t> sum = 0;
  parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(10, 1, [&](std::int64_t first, std::int64_t last) { sum += last - first; });
    }
  });
  EXPECT_EQ(sum, 80);
}

TEST_P(Parallel, RangesAreRepeatable) {
  const auto ranges = [] {
    std::vector<std::int64_t> ends(1000);
    parallel_for(1000, 10, [&](std::int64_t begin, std::int64_t end) {
      ends[static_cast<std::size_t>(begin)] = end;
    });
    return ends;
  };
  EXPECT_EQ(ranges(), ranges());
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 8),
                         ::testing::PrintToStringParamName());

TEST(Threads, SmallLoopsStayOnOneThread) {
  int calls = 0;
  parallel_for(100, 100, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Threads, MustBePositive) {
  const int before = num_threads();
  EXPECT_THROW(set_num_threads(0), ArgumentError);
  EXPECT_THROW(set_num_threads(-1), ArgumentError);
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace mezzo
