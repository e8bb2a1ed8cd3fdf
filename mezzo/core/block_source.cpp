#include "mezzo/core/block_source.h"

#include <algorithm>
#include <cstdlib>

#include "mezzo/core/huge_pages.h"
#include "mezzo/core/math.h"

namespace mezzo {
namespace {

constexpr std::size_t kRegion = 32 * kHugePage;  // of address space

}  // namespace

BlockSource::~BlockSource() {
  for (const Region& region : regions_) unmap_pages(region.all.begin, region.all.bytes);
}

void* BlockSource::take(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kBlockAlignment);
  if (size < bytes) return nullptr;
  if (kBlocksAreWatched) return std::aligned_alloc(kBlockAlignment, size);
  if (size > kLargest) return nullptr;
  const auto known = bare_.find(size);
  if (known != bare_.end() && !known->second.empty()) {
    void* const block = known->second.back();
    known->second.pop_back();
    return block;
  }
  return cut(size);
}

// The first region with enough space. Smaller blocks use up the rest of the older regions.
void* BlockSource::cut(std::size_t bytes) {
  auto region = std::ranges::find_if(
      regions_, [&](const Region& r) { return r.all.bytes - r.used >= bytes; });
  if (region == regions_.end()) {
    std::byte* const begin = map_huge_pages(kRegion);
    if (begin == nullptr) return nullptr;
    region = regions_.insert(regions_.end(), {{begin, kRegion}, 0});
  }
  void* const block = region->all.begin + region->used;
  region->used += bytes;
  return block;
}

void BlockSource::give_back(void* block, std::size_t bytes) noexcept {
  if (kBlocksAreWatched) {
    std::free(block);
    return;
  }
  const std::size_t size = round_up(bytes, kBlockAlignment);
  // The first and last pages may be shared with neighbours, so only whole pages are dropped.
  drop_pages(static_cast<std::byte*>(block), size);
  bare_[size].push_back(block);
}

}  // namespace mezzo
