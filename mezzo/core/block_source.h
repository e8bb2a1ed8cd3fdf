// Small blocks of memory from the system, close together in huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "mezzo/core/free_ranges.h"

namespace mezzo {

// With an address sanitizer blocks come from malloc() and go straight back, so that use after free
// is seen.
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

// Blocks are cut from regions of many huge pages: one by one from the system, they would lie in
// small ones. Not thread-safe.
class BlockSource {
 public:
  BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;
  // Blocks that were not given back go, too.
  ~BlockSource();

  // The largest block that take() gives, but for blocks that are watched.
  static constexpr std::size_t kLargest = 256 << 10;

  // A block of `bytes` > 0, aligned to kBlockAlignment, contents undefined. Null if the system has
  // no more memory.
  void* take(std::size_t bytes);

  // Gives a block's memory back to the system, and keeps the address for the next block of the same
  // size; `bytes` as it was asked for.
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
