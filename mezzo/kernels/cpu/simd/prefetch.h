// Prefetching memory that is read or written soon.
//
// The hardware prefetcher stops at the end of every page, and a store waits until its cache line
// has arrived. docs/benchmarks/memory_and_products.md says how much faster loops are that prefetch.
#pragma once

#include <cstdint>

namespace mezzo::kernels {

// Prefetch distances in bytes: a page ahead for reads. Writes need less: a store waits only if it
// comes before its line.
inline constexpr std::int64_t kReadAhead = 4096;
inline constexpr std::int64_t kWriteAhead = 1024;

// The address `bytes` after `p`. It may lie beyond the end of an array: prefetching it does
// nothing.
[[gnu::always_inline]] inline const void* address_behind(const void* p, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes);
  return reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Prefetches the line `ahead` bytes after `p` into the second-level cache. The first level holds
// what is being worked on; prefetching results there took longer. Always inline, because GCC drops
// calls of a function that only prefetches.
[[gnu::always_inline]] inline void prefetch(const void* p, std::int64_t ahead) {
  __builtin_prefetch(address_behind(p, ahead), 0, 2);
}

// Like prefetch(), but into the first-level cache, for data that is used within a microsecond.
[[gnu::always_inline]] inline void prefetch_soon(const void* p, std::int64_t ahead) {
  __builtin_prefetch(address_behind(p, ahead), 0, 3);
}

// Memory that is read or written later. Its lines are prefetched one by one while the vector unit
// is busy with something else; otherwise the unit would wait for all of them.
struct Ahead {
  const char* next = nullptr;
  const char* end = nullptr;

  [[gnu::always_inline]] void prefetch_line() {
    constexpr std::int64_t kLine = 64;
    if (next >= end) return;
    prefetch(next, 0);
    next += kLine;
  }
};

}  // namespace mezzo::kernels
