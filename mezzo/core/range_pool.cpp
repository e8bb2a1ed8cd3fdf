#include "mezzo/core/range_pool.h"

#include <algorithm>

#include "mezzo/core/huge_pages.h"
#include "mezzo/core/math.h"

namespace mezzo {
namespace {

constexpr std::size_t kRangeRegion = 128 * kHugePage;  // of address space

}  // namespace

RangePool::~RangePool() {
  for (const ByteRange& region : regions_) unmap_pages(region.begin, region.bytes);
}

RangePool::Block RangePool::take(std::size_t bytes, Fit fit) {
  const std::size_t size = round_up(bytes, kBlockAlignment);
  if (size < bytes) return {};
  std::byte* const kept = fit == Fit::kLargest ? kept_.take_from_largest(size) : kept_.take(size);
  if (kept != nullptr) return {kept, false};
  if (std::byte* const begin = kept_.take_with(bare_, size)) return {begin, true};
  if (!map_region(size)) return {};
  return {kept_.take_with(bare_, size), true};
}

void RangePool::give_back(void* block, std::size_t bytes) {
  kept_.add({static_cast<std::byte*>(block), round_up(bytes, kBlockAlignment)});
}

void RangePool::trim() noexcept {
  for (const ByteRange& range : kept_.ranges()) {
    drop_pages(range.begin, range.bytes);
    bare_.add(range);
  }
  kept_.clear();
}

bool RangePool::map_region(std::size_t bytes) {
  const std::size_t least = round_up(bytes, kHugePage);
  if (least < bytes) return false;
  for (const std::size_t size : {std::max(least, kRangeRegion), least}) {
    if (std::byte* const begin = map_huge_pages(size)) {
      regions_.push_back({begin, size});
      bare_.add(regions_.back());
      return true;
    }
  }
  return false;
}

}  // namespace mezzo
