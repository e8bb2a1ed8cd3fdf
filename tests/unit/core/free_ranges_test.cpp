#include "mezzo/core/free_ranges.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Part = std::pair<std::size_t, std::size_t>;  // begin and bytes

std::vector<std::byte> room(1000);

std::byte* at(std::size_t place) { return room.data() + place; }

std::vector<Part> parts_of(const FreeRanges& ranges) {
  std::vector<Part> parts;
  for (const ByteRange& range : ranges.ranges()) {
    parts.emplace_back(static_cast<std::size_t>(range.begin - room.data()), range.bytes);
  }
  return parts;
}

FreeRanges ranges_of(const std::vector<Part>& parts) {
  FreeRanges ranges;
  for (const auto& [begin, bytes] : parts) ranges.add({at(begin), bytes});
  return ranges;
}

TEST(FreeRanges, AreJoinedWhereTheyMeet) {
  FreeRanges ranges = ranges_of({{100, 50}, {300, 50}});
  ranges.add({at(200), 50});
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(100, 50), Part(200, 50), Part(300, 50)));
  ranges.add({at(150), 10});
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(100, 60), Part(200, 50), Part(300, 50)));
  ranges.add({at(290), 10});
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(100, 60), Part(200, 50), Part(290, 60)));
  ranges.add({at(160), 40});
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(100, 150), Part(290, 60)));
  EXPECT_EQ(ranges.bytes(), 210U);
}

TEST(FreeRanges, TheSmallestThatFitsIsCut) {
  FreeRanges ranges = ranges_of({{0, 90}, {100, 40}, {200, 60}});
  EXPECT_EQ(ranges.take(50), at(200));
  EXPECT_EQ(ranges.take(40), at(100)) << "all of it";
  EXPECT_EQ(ranges.take(91), nullptr);
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(0, 90), Part(250, 10)));
  EXPECT_EQ(ranges.bytes(), 100U);
}

TEST(FreeRanges, TheLargestIsCutFromItsEnd) {
  FreeRanges ranges = ranges_of({{0, 40}, {100, 60}, {200, 50}});
  EXPECT_EQ(ranges.take_from_largest(20), at(140));
  EXPECT_EQ(ranges.take_from_largest(50), at(200)) << "all of it";
  EXPECT_EQ(ranges.take_from_largest(41), nullptr);
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(0, 40), Part(100, 40)));
  EXPECT_EQ(ranges.bytes(), 80U);
  EXPECT_EQ(FreeRanges().take_from_largest(1), nullptr);
}

TEST(FreeRanges, TwoSetsGiveABlockAcrossTheirBorder) {
  FreeRanges first = ranges_of({{0, 30}, {60, 40}});
  FreeRanges second = ranges_of({{100, 100}, {300, 80}});
  EXPECT_EQ(first.take_with(second, 141), nullptr);
  EXPECT_EQ(first.take_with(second, 120), at(60));
  EXPECT_THAT(parts_of(first), ElementsAre(Part(0, 30)));
  EXPECT_THAT(parts_of(second), ElementsAre(Part(180, 20), Part(300, 80)));
  EXPECT_EQ(first.bytes() + second.bytes(), 130U);
}

TEST(FreeRanges, AcrossTheBorderOfWhichLeastRemains) {
  FreeRanges first = ranges_of({{60, 40}});
  FreeRanges second = ranges_of({{100, 100}, {300, 80}});
  EXPECT_EQ(first.take_with(second, 70), at(300)) << "where there is nothing before";
  EXPECT_THAT(parts_of(second), ElementsAre(Part(100, 100), Part(370, 10)));
}

TEST(FreeRanges, ClearedThereIsNone) {
  FreeRanges ranges = ranges_of({{0, 90}, {100, 40}});
  ranges.clear();
  EXPECT_THAT(parts_of(ranges), IsEmpty());
  EXPECT_EQ(ranges.bytes(), 0U);
}

// Randomly taken and returned blocks: no byte is ever given out twice or lost.
TEST(FreeRanges, LoseNothing) {
  std::mt19937 random(1);
  FreeRanges ranges = ranges_of({{0, room.size()}});
  std::vector<bool> is_taken(room.size(), false);
  const auto mark = [&](const ByteRange& block, bool taken) {
    for (std::size_t i = 0; i < block.bytes; ++i) {
      const auto place = static_cast<std::size_t>(block.begin - room.data()) + i;
      ASSERT_NE(is_taken[place], taken);
      is_taken[place] = taken;
    }
  };
  std::vector<ByteRange> blocks;
  for (int turn = 0; turn < 5000; ++turn) {
    const std::size_t bytes = random() % 60 + 1;
    if (random() % 2 == 0) {
      std::byte* const begin = ranges.take(bytes);
      if (begin == nullptr) continue;
      blocks.push_back({begin, bytes});
      mark(blocks.back(), true);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ranges.add(blocks.back());
      mark(blocks.back(), false);
      blocks.pop_back();
    }
    const auto taken = static_cast<std::size_t>(std::ranges::count(is_taken, true));
    ASSERT_EQ(ranges.bytes(), room.size() - taken);
  }
  for (const ByteRange& block : blocks) ranges.add(block);
  EXPECT_THAT(parts_of(ranges), ElementsAre(Part(0, room.size())));
}

}  // namespace
}  // namespace mezzo
