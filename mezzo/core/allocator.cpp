#include "mezzo/core/allocator.h"

#include <algorithm>
#include <bit>

#include "mezzo/core/error.h"
#include "mezzo/core/huge_pages.h"
#include "mezzo/core/math.h"

namespace mezzo {
namespace {

constinit thread_local RangePool::Fit wanted_fit = RangePool::Fit::kSmallest;

}  // namespace

// Class 8 * e + m holds blocks of (8 + m) * 2^e bytes, e >= 3.
std::size_t CachingAllocator::class_of(std::size_t bytes) {
  bytes = std::max(bytes, kBlockAlignment);
  const auto exponent = static_cast<std::size_t>(std::bit_width(bytes)) - 4;
  const std::size_t mantissa = (bytes + (std::size_t{1} << exponent) - 1) >> exponent;  // 8..16
  return 8 * exponent + (mantissa - 8);  // 16 is class 0 of the next exponent
}

std::size_t CachingAllocator::class_bytes(std::size_t size_class) {
  return (8 + size_class % 8) << (size_class / 8);
}

CachingAllocator::~CachingAllocator() { trim(); }

void* CachingAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  void* block = take_locked(bytes);
  if (block == nullptr) {
    trim_locked();
    block = take_locked(bytes);
  }
  if (block == nullptr) {
    fail<DeviceError>("allocator", "out of memory: ", bytes, " bytes requested, ",
                      stats_.live_bytes, " in use. Use a smaller batch or image size");
  }
  ++stats_.allocations;
  stats_.live_bytes += static_cast<std::int64_t>(round_up(bytes, kBlockAlignment));
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return block;
}

void* CachingAllocator::take_locked(std::size_t bytes) {
  if (is_large(bytes)) {
    const RangePool::Block block = large_.take(bytes, wanted_fit);
    if (block.is_fresh) ++stats_.fresh;
    return block.begin;
  }
  const std::size_t size_class = class_of(bytes);
  auto& blocks = free_[size_class];
  if (blocks.empty()) {
    void* const block = small_.take(class_bytes(size_class));
    if (block != nullptr) ++stats_.fresh;
    return block;
  }
  void* const block = blocks.back();
  blocks.pop_back();
  stats_.cached_bytes -= static_cast<std::int64_t>(class_bytes(size_class));
  return block;
}

void CachingAllocator::release(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const std::lock_guard lock(mutex_);
  stats_.live_bytes -= static_cast<std::int64_t>(round_up(bytes, kBlockAlignment));
  if (is_large(bytes)) return large_.give_back(block, bytes);
  const std::size_t size_class = class_of(bytes);
  if (kBlocksAreWatched) return small_.give_back(block, class_bytes(size_class));
  free_[size_class].push_back(block);
  stats_.cached_bytes += static_cast<std::int64_t>(class_bytes(size_class));
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.cached_bytes += static_cast<std::int64_t>(large_.kept_bytes());
  return stats;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void CachingAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void CachingAllocator::trim_locked() noexcept {
  large_.trim();
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
    for (void* const block : free_[size_class]) small_.give_back(block, class_bytes(size_class));
    free_[size_class].clear();
  }
  stats_.cached_bytes = 0;
}

WrittenPastCaches::WrittenPastCaches() : scope_(wanted_fit, RangePool::Fit::kLargest) {}

CachingAllocator& cpu_allocator() {
  // Never destroyed: tensors in static variables may outlive every other static.
  static auto* allocator = new CachingAllocator;
  return *allocator;
}

}  // namespace mezzo
