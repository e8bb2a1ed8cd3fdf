// Parts of address space that nobody uses, joined where they meet.
#pragma once

#include <cstddef>
#include <vector>

namespace mezzo {

struct ByteRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;

  std::byte* end() const { return begin + bytes; }
};

// In the order of their addresses. There are some hundred at most, which are looked through faster
// than a tree that has to be kept.
class FreeRanges {
 public:
  // One that meets none of those that are there.
  void add(ByteRange range);

  // That many bytes from the begin of the smallest range that has them; null if none has.
  std::byte* take(std::size_t bytes);

  // The same from the end of the largest range.
  std::byte* take_from_largest(std::size_t bytes);

  // That many bytes across the border of two such sets, from the end of a range of this one, which
  // has fewer, and the begin of one of `others`. Those of which least remains; null if none fit.
  std::byte* take_with(FreeRanges& others, std::size_t bytes);

  const std::vector<ByteRange>& ranges() const { return ranges_; }
  std::size_t bytes() const;  // of all
  void clear() { ranges_.clear(); }

 private:
  using Place = std::vector<ByteRange>::iterator;

  std::byte* cut(Place place, std::size_t bytes);
  std::byte* cut_end(Place place, std::size_t bytes);
  // The range that ends there; the end of all if none does.
  Place ending_at(const std::byte* address);

  std::vector<ByteRange> ranges_;
};

}  // namespace mezzo
