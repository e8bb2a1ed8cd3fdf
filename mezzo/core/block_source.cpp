#include "mezzo/core/block_source.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

namespace mezzo {
namespace {

constexpr std::size_t kHugePage = 2UL << 20;  // x86-64 transparent huge page
// Address space, which becomes memory where it is written to.
constexpr std::size_t kRegion = 32 * kHugePage;
// Larger blocks are mapped alone: a region may end with that much that nobody uses.
constexpr std::size_t kLargestCut = kRegion / 4;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* round_up(std::byte* address, std::size_t unit) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address + (round_up(number, unit) - number);
}

// `bytes`, a whole number of huge pages, aligned to them; null if there is no more memory.
std::byte* map_huge(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  if (mapped < bytes) return nullptr;
  void* const block =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(block);
  std::byte* const aligned = round_up(begin, kHugePage);
  const auto before = static_cast<std::size_t>(aligned - begin);
  if (before > 0) munmap(begin, before);
  munmap(aligned + bytes, kHugePage - before);
  madvise(aligned, bytes, MADV_HUGEPAGE);  // a refusal is harmless
  return aligned;
}

}  // namespace

BlockSource::~BlockSource() {
  for (const Region& region : regions_) munmap(region.begin, region.bytes);
}

void* BlockSource::take(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kAlignment);
  if (size < bytes) return nullptr;
  if (kBlocksAreWatched) return std::aligned_alloc(kAlignment, size);
  if (size > kLargestCut) {
    const std::size_t pages = round_up(size, kHugePage);
    return pages < size ? nullptr : map_huge(pages);
  }
  const auto known = bare_.find(size);
  if (known != bare_.end() && !known->second.empty()) {
    void* const block = known->second.back();
    known->second.pop_back();
    return block;
  }
  return cut(size);
}

// From the first region with room: what is left of the older ones takes the smaller blocks.
void* BlockSource::cut(std::size_t bytes) {
  auto region =
      std::ranges::find_if(regions_, [&](const Region& r) { return r.bytes - r.used >= bytes; });
  if (region == regions_.end()) {
    std::byte* const begin = map_huge(kRegion);
    if (begin == nullptr) return nullptr;
    region = regions_.insert(regions_.end(), {begin, kRegion, 0});
  }
  void* const block = region->begin + region->used;
  region->used += bytes;
  return block;
}

void BlockSource::give_back(void* block, std::size_t bytes) noexcept {
  if (kBlocksAreWatched) {
    std::free(block);
    return;
  }
  const std::size_t size = round_up(bytes, kAlignment);
  if (size > kLargestCut) {
    munmap(block, round_up(size, kHugePage));
    return;
  }
  // Whole pages; the first and the last may be shared with neighbours.
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const begin = static_cast<std::byte*>(block);
  std::byte* const first = round_up(begin, kPage);
  std::byte* const last = begin + size - reinterpret_cast<std::uintptr_t>(begin + size) % kPage;
  if (first < last) madvise(first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
  bare_[size].push_back(block);
}

}  // namespace mezzo
