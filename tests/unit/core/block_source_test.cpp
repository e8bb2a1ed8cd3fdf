#include "mezzo/core/block_source.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/huge_pages.h"

namespace mezzo {
namespace {

std::span<unsigned char> bytes_of(void* block, std::size_t bytes) {
  return {static_cast<unsigned char*>(block), bytes};
}

// More than a region's worth of blocks, from tiny ones to the largest.
TEST(BlockSource, BlocksAreAlignedAndDoNotMeet) {
  BlockSource source;
  std::vector<std::span<unsigned char>> blocks;
  std::size_t bytes = 1;
  for (std::size_t i = 0; i < 2000; ++i) {
    bytes = 2 * bytes + 5 > BlockSource::kLargest ? i % 100 + 1 : bytes * 2 + 5;
    void* const block = source.take(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kBlockAlignment, 0U) << bytes;
    std::memset(block, static_cast<int>(i % 256), bytes);
    blocks.push_back(bytes_of(block, bytes));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(std::ranges::count(blocks[i], static_cast<unsigned char>(i % 256)),
              static_cast<std::ptrdiff_t>(blocks[i].size()))
        << "block " << i;
    source.give_back(blocks[i].data(), blocks[i].size());
  }
}

TEST(BlockSource, GivesMemoryBackAndKeepsTheAddress) {
  if (kBlocksAreWatched) GTEST_SKIP() << "an address sanitizer is on: blocks are malloc's";
  BlockSource source;
  const std::size_t bytes = BlockSource::kLargest - 100;
  void* const before = source.take(64);
  void* const block = source.take(bytes);
  void* const behind = source.take(64);
  std::memset(before, 1, 64);
  std::memset(block, 2, bytes);
  std::memset(behind, 3, 64);
  source.give_back(block, bytes);
  EXPECT_EQ(std::ranges::count(bytes_of(before, 64), 1), 64);
  EXPECT_EQ(std::ranges::count(bytes_of(behind, 64), 3), 64) << "neighbours in its pages stay";
  EXPECT_EQ(source.take(bytes), block);
  constexpr std::size_t kMostShared = 2 * 4096;  // in its first and last page
  EXPECT_GE(std::ranges::count(bytes_of(block, bytes), 0),
            static_cast<std::ptrdiff_t>(bytes - kMostShared))
      << "pages that come from the system anew are zeros";
  EXPECT_NE(source.take(bytes), block) << "not twice";
  EXPECT_NE(source.take(bytes + 64), block) << "not for another size";
}

TEST(BlockSource, NullWhereThereIsNoMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the program on such a request";
#endif
  BlockSource source;
  EXPECT_EQ(source.take(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(source.take(SIZE_MAX), nullptr);
  EXPECT_EQ(source.take(SIZE_MAX - 100), nullptr);
  EXPECT_EQ(source.take(BlockSource::kLargest + 1), nullptr);
  EXPECT_NE(source.take(64), nullptr);
}

}  // namespace
}  // namespace mezzo
