#include "mezzo/core/free_ranges.h"

#include <algorithm>
#include <iterator>

namespace mezzo {
namespace {

// Whether `range` has enough bytes, and fewer than `found`, the best so far (0: none).
bool fits_better(std::size_t range, std::size_t bytes, std::size_t found) {
  return range >= bytes && (found == 0 || range < found);
}

}  // namespace

void FreeRanges::add(ByteRange range) {
  const Place next = std::ranges::lower_bound(ranges_, range.begin, {}, &ByteRange::begin);
  const bool meets_next = next != ranges_.end() && range.end() == next->begin;
  const bool meets_last = next != ranges_.begin() && std::prev(next)->end() == range.begin;
  if (meets_last) {
    std::prev(next)->bytes += range.bytes + (meets_next ? next->bytes : 0);
    if (meets_next) ranges_.erase(next);
  } else if (meets_next) {
    *next = {range.begin, range.bytes + next->bytes};
  } else {
    ranges_.insert(next, range);
  }
}

std::byte* FreeRanges::take(std::size_t bytes) {
  Place best = ranges_.end();
  for (Place place = ranges_.begin(); place != ranges_.end(); ++place) {
    if (fits_better(place->bytes, bytes, best == ranges_.end() ? 0 : best->bytes)) best = place;
  }
  return best == ranges_.end() ? nullptr : cut(best, bytes);
}

std::byte* FreeRanges::take_from_largest(std::size_t bytes) {
  const Place largest = std::ranges::max_element(ranges_, {}, &ByteRange::bytes);
  const bool fits = largest != ranges_.end() && largest->bytes >= bytes;
  return fits ? cut_end(largest, bytes) : nullptr;
}

std::byte* FreeRanges::take_with(FreeRanges& others, std::size_t bytes) {
  Place best = others.ranges_.end();
  Place before = ranges_.end();
  std::size_t found = 0;
  for (Place place = others.ranges_.begin(); place != others.ranges_.end(); ++place) {
    const Place last = ending_at(place->begin);
    const std::size_t both = place->bytes + (last == ranges_.end() ? 0 : last->bytes);
    if (!fits_better(both, bytes, found)) continue;
    best = place;
    before = last;
    found = both;
  }
  if (found == 0) return nullptr;
  if (before == ranges_.end()) return others.cut(best, bytes);
  const ByteRange first = *before;
  others.cut(best, bytes - first.bytes);
  return cut(before, first.bytes);
}

std::size_t FreeRanges::bytes() const {
  std::size_t all = 0;
  for (const ByteRange& range : ranges_) all += range.bytes;
  return all;
}

std::byte* FreeRanges::cut(Place place, std::size_t bytes) {
  std::byte* const begin = place->begin;
  if (place->bytes == bytes) {
    ranges_.erase(place);
  } else {
    *place = {begin + bytes, place->bytes - bytes};
  }
  return begin;
}

std::byte* FreeRanges::cut_end(Place place, std::size_t bytes) {
  if (place->bytes == bytes) return cut(place, bytes);
  place->bytes -= bytes;
  return place->end();
}

FreeRanges::Place FreeRanges::ending_at(const std::byte* address) {
  const Place next = std::ranges::lower_bound(ranges_, address, {}, &ByteRange::begin);
  const bool ends_there = next != ranges_.begin() && std::prev(next)->end() == address;
  return ends_there ? std::prev(next) : ranges_.end();
}

}  // namespace mezzo
