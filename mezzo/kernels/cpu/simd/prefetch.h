// Asking for memory that is read or written soon.
//
// The hardware that follows streams stops at the end of every page, and stores wait for their
// lines. On two threads of an Intel Xeon, loops that ask read 47 GB/s instead of 35 and copy 39
// instead of 30 (docs/benchmarks/memory_and_products.md, *Asking for memory*).
#pragma once

#include <cstdint>

namespace mezzo::kernels {

// How far ahead, in bytes: a page where numbers are read, less where results go, for a store only
// waits if it comes before its line.
inline constexpr std::int64_t kReadAhead = 4096;
inline constexpr std::int64_t kWriteAhead = 1024;

// The address that many bytes behind `p`, which may lie beyond the end of an array: nothing happens
// if it is asked for.
[[gnu::always_inline]] inline const void* address_behind(const void* p, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes);
  return reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Asks for the line that lies that many bytes behind `p`. Into the second-level cache, for the
// first holds what is worked on: results that were asked for there, to be written, took longer.
// Always inline, for GCC drops calls of a function that does nothing but ask.
[[gnu::always_inline]] inline void prefetch(const void* p, std::int64_t ahead) {
  __builtin_prefetch(address_behind(p, ahead), 0, 2);
}

// The same into the first-level cache, for what is worked on within a microsecond.
[[gnu::always_inline]] inline void prefetch_soon(const void* p, std::int64_t ahead) {
  __builtin_prefetch(address_behind(p, ahead), 0, 3);
}

// Memory that is read or written later. Its lines are asked for one by one while the vector unit is
// busy with something else: it would wait for all of them otherwise.
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
