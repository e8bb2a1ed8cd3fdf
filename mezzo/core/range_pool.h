// Large blocks of memory, cut from ranges that are merged again when blocks are given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mezzo/core/free_ranges.h"

namespace mezzo {

// By default a block is cut from the smallest free range that is large enough. Lists by size, which
// serve small blocks, would keep a block for each size that was ever in use at one time: a third
// more memory than a ResNet-50 step uses. Not thread-safe.
class RangePool {
 public:
  // Where a block is cut from. Stores that bypass the caches are faster where the caches hold no
  // newer data of the same addresses, which would first be written to memory. Such memory is at the
  // end of the largest range, where blocks were written longest ago. ResNet-50's update writes 34
  // MB of weights this way and takes 14.4 ms instead of 15.2.
  enum class Fit : std::uint8_t { kSmallest, kLargest };

  struct Block {
    void* begin = nullptr;
    bool is_fresh = false;  // at least part of it is new or was trimmed
  };

  RangePool() = default;
  RangePool(const RangePool&) = delete;
  RangePool& operator=(const RangePool&) = delete;
  // Also frees blocks that were not given back.
  ~RangePool();

  // A block of `bytes` > 0, aligned to kBlockAlignment, contents undefined. Null if the system has
  // no more address space.
  Block take(std::size_t bytes, Fit fit = Fit::kSmallest);
  // `bytes` must be the size that was requested.
  void give_back(void* block, std::size_t bytes);

  // The bytes of blocks that were given back and kept.
  std::size_t kept_bytes() const { return kept_.bytes(); }
  // Returns the memory of kept blocks to the system.
  void trim() noexcept;

 private:
  bool map_region(std::size_t bytes);

  FreeRanges kept_;  // ranges that may have memory
  FreeRanges bare_;  // ranges without memory
  std::vector<ByteRange> regions_;
};

}  // namespace mezzo
