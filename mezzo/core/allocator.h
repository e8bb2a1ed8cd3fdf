// Memory for tensors: blocks are kept and handed out again, and every byte is counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mezzo/core/block_source.h"
#include "mezzo/core/range_pool.h"
#include "mezzo/core/scoped.h"

namespace mezzo {

// Byte counts of an allocator. These numbers are what "memory" means in every report.
struct MemoryStats {
  std::int64_t live_bytes = 0;    // handed out now
  std::int64_t peak_bytes = 0;    // the largest live_bytes since reset_peak()
  std::int64_t cached_bytes = 0;  // given back and kept for reuse
  std::uint64_t allocations = 0;  // blocks asked for
  std::uint64_t fresh = 0;        // of these, not served from what was kept
};

// A caching allocator. What is given back is kept, because fresh pages from the kernel cost as much
// as the arithmetic on them: small blocks in lists by size class, which are fast, large ones as
// ranges that are joined, which waste little. Thread-safe.
class CachingAllocator {
 public:
  CachingAllocator() = default;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  // `bytes` of memory, aligned to 64 bytes, contents undefined; null for 0 bytes.
  // Throws DeviceError when the system has no more memory, after giving back what is cached.
  void* allocate(std::size_t bytes);

  // Gives a block back; `bytes` as it was asked for. Null is ignored.
  void release(void* block, std::size_t bytes) noexcept;

  MemoryStats stats() const;
  void reset_peak();

  // Returns all cached blocks to the system.
  void trim() noexcept;

 private:
  static constexpr bool is_large(std::size_t bytes) {
    return bytes > BlockSource::kLargest && !kBlocksAreWatched;
  }
  void* take_locked(std::size_t bytes);

  // Size classes of small blocks: eight per power of two, so that a block wastes at most an eighth.
  static constexpr std::size_t kClasses = 512;
  static std::size_t class_of(std::size_t bytes);
  static std::size_t class_bytes(std::size_t size_class);
  void trim_locked() noexcept;

  mutable std::mutex mutex_;
  RangePool large_;
  BlockSource small_;
  std::array<std::vector<void*>, kClasses> free_;  // small blocks
  MemoryStats stats_;
};

// While it exists, memory that this thread asks for is going to be written past the caches: see
// RangePool::Fit.
class WrittenPastCaches {
 public:
  WrittenPastCaches();

 private:
  Scoped<RangePool::Fit> scope_;
};

// The allocator of all CPU tensors.
CachingAllocator& cpu_allocator();

}  // namespace mezzo
