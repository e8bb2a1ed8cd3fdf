// Tests means over processes: the same bits everywhere, in the order of the processes.
#include "mezzo/distributed/average.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::distributed {
namespace {

using test::in_processes;
using test::results_of;
using Numbers = std::vector<float>;

// The values that process `rank` contributes.
Numbers numbers_of(int rank, std::size_t count) {
  Numbers numbers(count);
  fill_normal(numbers, {.seed = 7, .offset = static_cast<std::uint64_t>(rank) << 32}, 0, 3);
  return numbers;
}

std::vector<std::uint32_t> bits_of(const Numbers& numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

// Lengths that cannot be divided evenly, and more than one exchange.
TEST(Average, AddsUpInTheOrderOfTheProcesses) {
  for (const int size : {1, 2, 3, 4, 5}) {
    for (const std::size_t count : {0, 1, 2, 3, 4, 7, 64, 1000, 600'001}) {
      Numbers expected = numbers_of(0, count);
      for (int rank = 1; rank < size; ++rank) {
        const Numbers other = numbers_of(rank, count);
        for (std::size_t i = 0; i < count; ++i) expected[i] += other[i];
      }
      for (float& number : expected) number *= 1.0F / static_cast<float>(size);
      const auto results = results_of<Numbers>(size, [&](ProcessGroup& group) {
        Numbers own = numbers_of(group.rank(), count);
        average(group, own);
        return own;
      });
      for (const Numbers& result : results) {
        EXPECT_EQ(bits_of(result), bits_of(expected)) << size << " processes, " << count;
      }
    }
  }
}

TEST(Average, WhatIsNotFiniteInOneProcessIsSoInAll) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    for (const int culprit : {0, 1, 2}) {
      in_processes(3, [&](ProcessGroup& group) {
        Numbers numbers(100, 1);
        // The sum of opposite infinities is NaN, which is not finite either.
        if (group.rank() == culprit) numbers[41] = bad;
        if (group.rank() == (culprit + 1) % 3) numbers[41] = -bad;
        average(group, numbers);
        EXPECT_FALSE(std::isfinite(numbers[41]));
        EXPECT_EQ(numbers[40], 1);
      });
    }
  }
}

TEST(Average, OfOneNumberAndOfConditions) {
  in_processes(4, [](ProcessGroup& group) {
    EXPECT_EQ(sum(group, group.rank()), 6);
    EXPECT_EQ(average(group, static_cast<double>(group.rank())), 1.5);
    EXPECT_TRUE(any(group, group.rank() == 3));
    EXPECT_FALSE(any(group, false));
  });
}

TEST(Average, ProcessesThatDisagreeAreAllTold) {
  in_processes(3, [](ProcessGroup& group) {
    check_same(group, "op", "the step", 7, "Do.");
    const double value = group.rank() == 2 ? 8 : 7;
    EXPECT_EQ(message_of<ArgumentError>(
                  [&] { check_same(group, "op", "the step", value, "Do the same"); }),
              "[op] the step of process 2 is 8, that of process 0 7. Do the same");
  });
}

TEST(Broadcast, GivesWhatTheFirstHas) {
  in_processes(3, [](ProcessGroup& group) {
    // One of them takes more than one exchange.
    const std::vector<NamedTensor> tensors = {
        {"small", full({3}, group.rank())},
        {"large", full({3, 100, 7, 150}, group.rank(), DType::kF32)},
        {"count", full({}, group.rank() + 5, DType::kI64)}};
    const std::uint64_t before = tensors[0].tensor.version();
    broadcast(group, tensors);
    EXPECT_EQ(tensors[0].tensor.to_vector<float>(), Numbers(3, 0));
    EXPECT_EQ(tensors[1].tensor.to_vector<float>(), Numbers(315'000, 0));
    EXPECT_EQ(tensors[2].tensor.item(), 5);
    // Copies of it are now stale.
    EXPECT_GT(tensors[0].tensor.version(), before);
    std::int64_t number = group.rank() + 3;
    broadcast(group, number);
    EXPECT_EQ(number, 3);
  });
}

TEST(Broadcast, RefusesOtherTensors) {
  in_processes(2, [](ProcessGroup& group) {
    const auto message_of_all = [&](const std::vector<NamedTensor>& tensors) {
      return message_of<ArgumentError>([&] { broadcast(group, tensors); });
    };
    const bool is_first = group.rank() == 0;
    const NamedTensor a{"a", full({2, 3}, 1)};
    const NamedTensor b{"b", full({2, 3}, 2)};
    EXPECT_THAT(message_of_all({a, {"w", full({3 + group.rank()}, 1)}}),
                testing::HasSubstr("tensor 1 of network and state, here w, "));
    EXPECT_THAT(message_of_all(is_first ? std::vector{a, b} : std::vector{b, a}),
                testing::HasSubstr("has another name, shape, dtype or format in process 1 than in "
                                   "process 0"));
    EXPECT_THAT(message_of_all({{"w", is_first ? full({2, 3}, 1) : full({3, 2}, 1)}}),
                testing::HasSubstr("tensor 0 of network and state"));
    EXPECT_THAT(message_of_all(is_first ? std::vector{a, b} : std::vector{a}),
                testing::HasSubstr("the number of tensors of network and state of process 1 is 1"));
  });
}

TEST(FailTogether, AllFailForOneAndMeetThen) {
  in_processes(3, [](ProcessGroup& group) {
    fail_together(group, "op", nullptr);
    meet_in_failure(group);  // nobody waits
    const auto failure = group.rank() == 1 ? std::make_exception_ptr(FileError("gone")) : nullptr;
    const std::string message = message_of<Error>([&] { fail_together(group, "op", failure); });
    EXPECT_EQ(message, group.rank() == 1
                           ? "gone"
                           : "[op] another process has failed. See its error message");
    EXPECT_TRUE(group.all_have_failed());
    meet_in_failure(group);
    fail_together(group, "op", nullptr);
    EXPECT_FALSE(group.all_have_failed()) << "they have gone on";
  });
}

}  // namespace
}  // namespace mezzo::distributed
