#include "mezzo/core/range_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/huge_pages.h"

namespace mezzo {
namespace {

constexpr std::size_t kMegabyte = 1UL << 20;

std::ptrdiff_t count_bytes(const void* block, std::size_t bytes, int value) {
  return std::ranges::count(std::span(static_cast<const unsigned char*>(block), bytes), value);
}

// Several regions' worth of blocks, one of them larger than a region.
TEST(RangePool, BlocksAreAlignedAndDoNotMeet) {
  RangePool pool;
  std::vector<std::span<unsigned char>> blocks;
  for (std::size_t i = 0; i < 20; ++i) {
    const std::size_t bytes = i == 9 ? 300 * kMegabyte : (i % 5 + 1) * 11 * kMegabyte + 3 * i + 1;
    void* const block = pool.take(bytes).begin;
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kBlockAlignment, 0U) << bytes;
    blocks.emplace_back(static_cast<unsigned char*>(block), bytes);
    blocks.back().front() = blocks.back().back() = static_cast<unsigned char>(i);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].front(), i);
    EXPECT_EQ(blocks[i].back(), i);
    pool.give_back(blocks[i].data(), blocks[i].size());
  }
}

TEST(RangePool, WhatIsGivenBackIsJoined) {
  RangePool pool;
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) {
    const RangePool::Block block = pool.take(kMegabyte);
    EXPECT_TRUE(block.is_fresh);
    blocks.push_back(block.begin);
  }
  void* const behind = pool.take(kMegabyte).begin;
  for (const int i : {0, 2, 1}) pool.give_back(blocks[static_cast<std::size_t>(i)], kMegabyte);
  EXPECT_EQ(pool.kept_bytes(), 3 * kMegabyte);
  const RangePool::Block large = pool.take(3 * kMegabyte);
  EXPECT_EQ(large.begin, *std::ranges::min_element(blocks));
  EXPECT_FALSE(large.is_fresh);
  EXPECT_EQ(pool.kept_bytes(), 0U);
  pool.give_back(large.begin, 3 * kMegabyte);
  pool.give_back(behind, kMegabyte);
}

// A kept range at the end becomes a part of a block that needs more.
TEST(RangePool, GrowsBehindWhatIsKept) {
  RangePool pool;
  void* const first = pool.take(kMegabyte).begin;
  pool.give_back(first, kMegabyte);
  const RangePool::Block larger = pool.take(5 * kMegabyte);
  EXPECT_EQ(larger.begin, first);
  EXPECT_TRUE(larger.is_fresh);
  EXPECT_EQ(pool.kept_bytes(), 0U);
}

TEST(RangePool, CutsFromTheLargestRangeIfThatIsWanted) {
  RangePool pool;
  void* const small = pool.take(kMegabyte).begin;
  void* const between = pool.take(kMegabyte).begin;
  auto* const large = static_cast<std::byte*>(pool.take(3 * kMegabyte).begin);
  pool.give_back(small, kMegabyte);
  pool.give_back(large, 3 * kMegabyte);
  EXPECT_EQ(pool.take(kMegabyte, RangePool::Fit::kLargest).begin, large + 2 * kMegabyte);
  EXPECT_EQ(pool.take(kMegabyte).begin, small);
  EXPECT_TRUE(pool.take(5 * kMegabyte, RangePool::Fit::kLargest).is_fresh) << "none is kept";
  pool.give_back(between, kMegabyte);
}

TEST(RangePool, TrimGivesMemoryBackAndKeepsTheAddresses) {
  RangePool pool;
  const std::size_t bytes = 3 * kMegabyte + 100;
  void* const before = pool.take(64).begin;
  void* const block = pool.take(bytes).begin;
  void* const behind = pool.take(64).begin;
  std::memset(before, 1, 64);
  std::memset(block, 2, bytes);
  std::memset(behind, 3, 64);
  pool.give_back(block, bytes);
  EXPECT_GE(pool.kept_bytes(), bytes);
  pool.trim();
  EXPECT_EQ(pool.kept_bytes(), 0U);
  EXPECT_EQ(count_bytes(before, 64, 1), 64);
  EXPECT_EQ(count_bytes(behind, 64, 3), 64) << "neighbours in its pages stay";
  const RangePool::Block again = pool.take(bytes);
  EXPECT_EQ(again.begin, block);
  EXPECT_TRUE(again.is_fresh);
  constexpr std::size_t kMostShared = 2 * 4096;  // in its first and last page
  EXPECT_GE(count_bytes(block, bytes, 0), static_cast<std::ptrdiff_t>(bytes - kMostShared))
      << "pages that come from the system anew are zeros";
}

TEST(RangePool, NullWhereThereIsNoMore) {
  RangePool pool;
  EXPECT_EQ(pool.take(std::size_t{1} << 60).begin, nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX).begin, nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX - 100).begin, nullptr);
  EXPECT_NE(pool.take(64).begin, nullptr);
}

}  // namespace
}  // namespace mezzo
