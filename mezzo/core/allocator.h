// The caching allocator for tensors: freed blocks are kept and reused, and every byte is counted.
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

// Byte counts of an allocator. Every report of "memory" shows these counts.
struct MemoryStats {
  std::int64_t live_bytes = 0;    // in use now
  std::int64_t peak_bytes = 0;    // the largest live_bytes since reset_peak()
  std::int64_t cached_bytes = 0;  // freed and kept for reuse
  std::uint64_t allocations = 0;  // number of allocations
  std::uint64_t fresh = 0;        // allocations that the cache could not serve
};

// A caching allocator. Freed memory is kept, because fresh pages from the kernel cost as much as
// the arithmetic on them. Small blocks are kept in lists by size class, which are fast. Large
// blocks are kept as ranges that are merged, which waste little memory. Thread-safe.
class CachingAllocator {
 public:
  CachingAllocator() = default;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator();

  // Allocates `bytes`, aligned to 64 bytes, contents undefined; returns null for 0 bytes. If the
  // system has no more memory, frees the cache and tries again, then throws DeviceError.
  void* allocate(std::size_t bytes);

  // Frees a block; `bytes` must be the size that was allocated. Null is ignored.
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

// While it exists, the memory that this thread allocates will be written with stores that bypass
// the caches: see RangePool::Fit.
class WrittenPastCaches {
 public:
  WrittenPastCaches();

 private:
  Scoped<RangePool::Fit> scope_;
};

// The allocator of all CPU tensors.
CachingAllocator& cpu_allocator();

}  // namespace mezzo
