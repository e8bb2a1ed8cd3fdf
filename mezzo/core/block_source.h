// Small blocks of memory from the system, close together in huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "mezzo/core/free_ranges.h"

namespace mezzo {

// Under an address sanitizer, blocks come from malloc() and are freed at once, so that use after
// free is detected.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kBlocksAreWatched = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kBlocksAreWatched = true;
#else
inline constexpr bool kBlocksAreWatched = false;
#endif
#else
inline constexpr bool kBlocksAreWatched = false;
#endif

// Cuts blocks from regions of many huge pages. Blocks that were requested one by one from the
// system would lie in small pages. Not thread-safe.
class BlockSource {
 public:
  BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;
  // Also frees blocks that were not given back.
  ~BlockSource();

  // The largest block that take() returns, unless blocks are watched.
  static constexpr std::size_t kLargest = 256 << 10;

  // A block of `bytes` > 0, aligned to kBlockAlignment, contents undefined. Null if the system has
  // no more memory.
  void* take(std::size_t bytes);

  // Returns a block's memory to the system and keeps its address for the next block of the same
  // size. `bytes` must be the size that was requested.
  void give_back(void* block, std::size_t bytes) noexcept;

 private:
  struct Region {
    ByteRange all;
    std::size_t used = 0;
  };

  void* cut(std::size_t bytes);

  std::vector<Region> regions_;
  std::map<std::size_t, std::vector<void*>> bare_;  // addresses without memory, by size
};

}  // namespace mezzo
