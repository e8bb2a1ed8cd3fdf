// Tests what a program finds that was started without a launcher.
#include <numeric>

#include <gtest/gtest.h>

#include "mezzo/distributed/average.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {
namespace {

TEST(Connect, AProcessThatWasStartedAloneIsAGroupOfOne) {
  const auto group = connect();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(average(*group, 3.5), 3.5);
  EXPECT_EQ(sum(*group, 3.5), 3.5);
  std::vector<float> numbers(5);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  average(*group, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3, 4, 5}));
  std::vector<std::byte> received(2);
  group->all_to_all(std::vector<std::byte>{std::byte{7}, std::byte{8}}, received);
  EXPECT_EQ(received[1], std::byte{8});
}

}  // namespace
}  // namespace mezzo::distributed
