// Tests exchanges that are posted.
#include "mezzo/distributed/posted_work.h"

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/distributed/average.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::distributed {
namespace {

TEST(PostedWork, IsDoneInOrderOnAThreadOfItsOwn) {
  PostedWork work;
  std::vector<int> done;
  std::atomic<bool> is_own = true;
  for (int i = 0; i < 100; ++i) {
    work.add([&, i] {
      done.push_back(i);
      is_own = is_own && work.is_own_thread();
    });
  }
  work.wait();
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(is_own);
  EXPECT_FALSE(work.is_own_thread());
}

TEST(PostedWork, AnExceptionDropsTheRestAndIsThrownOnce) {
  PostedWork work;
  bool is_done = false;
  const auto next = [&] { is_done = true; };
  std::promise<void> may_fail;
  work.add([&] {
    may_fail.get_future().wait();
    throw std::runtime_error("broken");
  });
  work.add(next);
  may_fail.set_value();
  EXPECT_THROW(work.wait(), std::runtime_error);
  EXPECT_FALSE(is_done);
  work.wait();
  work.add(next);
  work.wait();
  EXPECT_TRUE(is_done);
}

TEST(PostedWork, EndsWithWorkThatNobodyWaitedFor) {
  PostedWork work;
  for (int i = 0; i < 10; ++i) work.add([] {});
}

// Direct calls come after posted ones, in all processes.
TEST(PostedWork, ExchangesKeepTheirOrder) {
  test::in_processes(3, [](ProcessGroup& group) {
    std::vector<float> numbers(1000, static_cast<float>(group.rank()));
    group.post([&] { average(group, numbers); });
    EXPECT_EQ(sum(group, 1), 3);
    EXPECT_EQ(numbers, std::vector<float>(1000, 1));
  });
}

// A part of 250 f32 numbers to each of three others, and then the own one to all of them.
TEST(PostedWork, BytesThatAreSentAreCounted) {
  test::in_processes(4, [](ProcessGroup& group) {
    std::vector<float> numbers(1000);
    average(group, numbers);
    EXPECT_EQ(group.bytes_sent(), 2 * 3 * 1000);
  });
}

}  // namespace
}  // namespace mezzo::distributed
