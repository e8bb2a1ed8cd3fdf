#include "mezzo/core/allocator.h"

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

class KeptBlocks : public testing::Test {
 protected:
  void SetUp() override {
    if (kBlocksAreWatched) GTEST_SKIP() << "an address sanitizer is on: no block is kept";
  }

  CachingAllocator allocator;
};

TEST(Allocator, CountsLiveAndPeakBytes) {
  CachingAllocator allocator;
  void* a = allocator.allocate(1000);
  void* b = allocator.allocate(64);
  EXPECT_EQ(allocator.stats().live_bytes, 1024 + 64) << "counted in units of 64 bytes";
  allocator.release(a, 1000);
  EXPECT_EQ(allocator.stats().live_bytes, 64);
  EXPECT_EQ(allocator.stats().peak_bytes, 1024 + 64);
  allocator.reset_peak();
  EXPECT_EQ(allocator.stats().peak_bytes, 64);
  void* c = allocator.allocate(128);
  EXPECT_EQ(allocator.stats().peak_bytes, 192);
  EXPECT_EQ(allocator.stats().allocations, 3U);
  allocator.release(b, 64);
  allocator.release(c, 128);
  EXPECT_EQ(allocator.stats().live_bytes, 0);
}

TEST(Allocator, BlocksAreAlignedAndWritable) {
  CachingAllocator allocator;
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < (std::size_t{8} << 20); bytes = bytes * 3 / 2 + 7) {
    void* block = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].first);
    EXPECT_EQ(bytes[0], i);
    EXPECT_EQ(bytes[blocks[i].second - 1], i);
    allocator.release(blocks[i].first, blocks[i].second);
  }
  EXPECT_EQ(allocator.stats().live_bytes, 0);
}

TEST_F(KeptBlocks, AreGivenAgainToTheSameClass) {
  void* first = allocator.allocate(100'000);
  allocator.release(first, 100'000);
  const std::int64_t cached = allocator.stats().cached_bytes;
  EXPECT_GE(cached, 100'000);
  EXPECT_LE(cached, 112'500) << "at most an eighth is wasted";
  EXPECT_EQ(allocator.allocate(99'000), first);
  EXPECT_EQ(allocator.stats().fresh, 1U);
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  void* other = allocator.allocate(99'000);
  EXPECT_NE(other, first) << "a block in use is not given twice";
  allocator.release(first, 99'000);
  allocator.release(other, 99'000);
}

TEST_F(KeptBlocks, FitEverySizeAndWasteLittle) {
  for (std::size_t bytes = 64; bytes < 5000; ++bytes) {
    CachingAllocator own;
    own.release(own.allocate(bytes), bytes);
    const auto block = static_cast<std::size_t>(own.stats().cached_bytes);
    ASSERT_GE(block, bytes);
    ASSERT_LE(block, bytes + bytes / 8 + 1) << bytes;
  }
}

// Blocks of a megabyte, whose memory a larger block reuses.
TEST_F(KeptBlocks, AreJoinedIfTheyAreLarge) {
  std::vector<void*> blocks;
  constexpr std::size_t kBytes = 1 << 20;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(kBytes));
  for (void* const block : blocks) allocator.release(block, kBytes);
  EXPECT_EQ(allocator.stats().cached_bytes, 4 << 20);
  const std::uint64_t fresh = allocator.stats().fresh;
  void* const large = allocator.allocate(3 * kBytes);
  EXPECT_EQ(allocator.stats().cached_bytes, 1 << 20);
  EXPECT_EQ(allocator.stats().fresh, fresh);
  allocator.release(large, 3 * kBytes);
}

TEST_F(KeptBlocks, TheLargestIsForWhatIsWrittenPastCaches) {
  constexpr std::size_t kBytes = 1 << 20;
  void* const small = allocator.allocate(kBytes);
  void* const between = allocator.allocate(kBytes);
  auto* const large = static_cast<std::byte*>(allocator.allocate(2 * kBytes));
  allocator.release(small, kBytes);
  allocator.release(large, 2 * kBytes);
  {
    const WrittenPastCaches scope;
    EXPECT_EQ(allocator.allocate(kBytes), large + kBytes);
  }
  EXPECT_EQ(allocator.allocate(kBytes), small) << "the first of two of one size";
  for (void* const block : {small, between, static_cast<void*>(large + kBytes)}) {
    allocator.release(block, kBytes);
  }
}

TEST(Allocator, TrimReturnsWhatIsCached) {
  CachingAllocator allocator;
  void* kept = allocator.allocate(256);
  allocator.release(allocator.allocate(512), 512);
  allocator.release(allocator.allocate(1 << 20), 1 << 20);
  allocator.trim();
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  EXPECT_EQ(allocator.stats().live_bytes, 256);
  std::memset(kept, 1, 256);
  allocator.release(allocator.allocate(1 << 20), 1 << 20);
  EXPECT_EQ(allocator.stats().fresh, 4U);
  allocator.release(kept, 256);
}

TEST(Allocator, NothingIsNullAndNullIsIgnored) {
  CachingAllocator allocator;
  EXPECT_EQ(allocator.allocate(0), nullptr);
  allocator.release(nullptr, 0);
  EXPECT_EQ(allocator.stats().allocations, 0U);
}

TEST(Allocator, SaysHowMuchWasAskedForWhenThereIsNoMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the program on such a request";
#endif
  CachingAllocator allocator;
  void* kept = allocator.allocate(128);
  try {
    allocator.allocate(std::size_t{1} << 60);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "[allocator] out of memory: 1152921504606846976 bytes requested, 128 in use. Use "
                 "a smaller batch or image size");
  }
  EXPECT_EQ(allocator.stats().live_bytes, 128) << "a request that failed counts for nothing";
  allocator.release(kept, 128);
}

TEST(Allocator, ThreadsShareIt) {
  CachingAllocator allocator;
  constexpr int kThreads = 4;
  constexpr int kRounds = 1000;
  std::vector<std::jthread> threads;
  std::vector<int> damaged(kThreads);
  threads.reserve(kThreads);
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&allocator, &damaged, id] {
      for (int round = 0; round < kRounds; ++round) {
        const std::size_t bytes =
            64 + static_cast<std::size_t>(round % 7) * (round % 20 == 0 ? 100'000 : 100);
        auto* block = static_cast<unsigned char*>(allocator.allocate(bytes));
        std::memset(block, id, bytes);
        if (block[0] != id || block[bytes - 1] != id) ++damaged[static_cast<std::size_t>(id)];
        allocator.release(block, bytes);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(damaged, std::vector<int>(kThreads));
  EXPECT_EQ(allocator.stats().live_bytes, 0);
  EXPECT_EQ(allocator.stats().allocations, std::uint64_t{kThreads} * kRounds);
}

TEST(Allocator, TensorsAreCountedOnceForAllTheirViews) {
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  {
    const Tensor tensor = empty({1024});
    const Tensor view = alias(tensor, {512}, {2}, 0);
    EXPECT_EQ(cpu_allocator().stats().live_bytes - before, 4096);
  }
  EXPECT_EQ(cpu_allocator().stats().live_bytes, before);
}

}  // namespace
}  // namespace mezzo
