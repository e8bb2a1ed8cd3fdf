// Memory from the system in huge pages: with small ones, walks through page tables cost a ResNet-50
// step 2 %.
#pragma once

#include <cstddef>

namespace mezzo {

inline constexpr std::size_t kHugePage = 2UL << 20;  // of x86-64, transparent

inline constexpr std::size_t kBlockAlignment = 64;  // a cache line, an AVX-512 vector

// Address space for `bytes`, a whole number of huge pages, that begins with one. It becomes memory
// where it is written to. Null if there is no more.
std::byte* map_huge_pages(std::size_t bytes);

// Gives address space back, with what memory it has.
void unmap_pages(std::byte* begin, std::size_t bytes) noexcept;

// Gives the memory of all whole pages in there back, and keeps the addresses.
void drop_pages(std::byte* begin, std::size_t bytes) noexcept;

}  // namespace mezzo
