// Memory from the system in huge pages. With small pages, page table walks cost 2 % of a ResNet-50
// step.
#pragma once

#include <cstddef>

namespace mezzo {

inline constexpr std::size_t kHugePage = 2UL << 20;  // transparent huge pages of x86-64

inline constexpr std::size_t kBlockAlignment = 64;  // a cache line, or an AVX-512 vector

// Reserves address space for `bytes`, a whole number of huge pages, aligned to a huge page. It gets
// memory when it is written. Null if there is no more address space.
std::byte* map_huge_pages(std::size_t bytes);

// Returns address space and its memory to the system.
void unmap_pages(std::byte* begin, std::size_t bytes) noexcept;

// Returns the memory of all whole pages in the range to the system, and keeps the addresses.
void drop_pages(std::byte* begin, std::size_t bytes) noexcept;

}  // namespace mezzo
