// Unused ranges of address space, merged where they meet.
#pragma once

#include <cstddef>
#include <vector>

namespace mezzo {

struct ByteRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;

  std::byte* end() const { return begin + bytes; }
};

// Kept in order of address. There are a few hundred at most, so a linear search is faster than
// maintaining a tree.
class FreeRanges {
 public:
  // Adds a range, which must not overlap those that are there.
  void add(ByteRange range);

  // Takes that many bytes from the beginning of the smallest range that has them; null if none has.
  std::byte* take(std::size_t bytes);

  // Takes them from the end of the largest range instead.
  std::byte* take_from_largest(std::size_t bytes);

  // Takes that many bytes across the border of two sets: from the end of a range of this one, which
  // is too small, and the beginning of one of `others`. Of several pairs, the one with the least
  // remainder is taken; null if none fits.
  std::byte* take_with(FreeRanges& others, std::size_t bytes);

  const std::vector<ByteRange>& ranges() const { return ranges_; }
  std::size_t bytes() const;  // in all ranges
  void clear() { ranges_.clear(); }

 private:
  using Place = std::vector<ByteRange>::iterator;

  std::byte* cut(Place place, std::size_t bytes);
  std::byte* cut_end(Place place, std::size_t bytes);
  // The range that ends at `address`; end() if there is none.
  Place ending_at(const std::byte* address);

  std::vector<ByteRange> ranges_;
};

}  // namespace mezzo
