#include "mezzo/core/huge_pages.h"

#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#include "mezzo/core/math.h"

namespace mezzo {
namespace {

// Rounds an address up to a multiple of `unit`.
std::byte* aligned_to(std::size_t unit, std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return address + (round_up(number, unit) - number);
}

}  // namespace

std::byte* map_huge_pages(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  if (mapped < bytes) return nullptr;
  void* const block =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(block);
  std::byte* const aligned = aligned_to(kHugePage, begin);
  const auto before = static_cast<std::size_t>(aligned - begin);
  if (before > 0) munmap(begin, before);
  munmap(aligned + bytes, kHugePage - before);
  madvise(aligned, bytes, MADV_HUGEPAGE);  // refusal is harmless
  return aligned;
}

void unmap_pages(std::byte* begin, std::size_t bytes) noexcept { munmap(begin, bytes); }

void drop_pages(std::byte* begin, std::size_t bytes) noexcept {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const first = aligned_to(kPage, begin);
  std::byte* const end = begin + bytes;
  std::byte* const last = end - reinterpret_cast<std::uintptr_t>(end) % kPage;
  if (first < last) madvise(first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
}

}  // namespace mezzo
