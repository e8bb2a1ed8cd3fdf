#include "mezzo/graph/segments.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::graph {
namespace {

constexpr std::ptrdiff_t kLeastCalls = 2;

bool can_be_within(Part part) { return part == Part::kCall || part == Part::kPrepared; }

std::ptrdiff_t count_calls(std::span<const Part> parts) {
  return std::ranges::count(parts, Part::kCall);
}

// The nodes [first, last) without those before the first call and after the last one.
Segment trimmed(std::span<const Part> parts, Segment segment) {
  while (segment.first < segment.last && parts[segment.first] != Part::kCall) ++segment.first;
  while (segment.last > segment.first && parts[segment.last - 1] != Part::kCall) --segment.last;
  return segment;
}

}  // namespace

std::vector<Segment> find_segments(std::span<const Part> parts) {
  std::vector<Segment> segments;
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t last = first;
    while (last < parts.size() && can_be_within(parts[last])) ++last;
    const Segment segment = trimmed(parts, {first, last});
    const auto nodes = parts.subspan(segment.first, segment.last - segment.first);
    if (count_calls(nodes) >= kLeastCalls) segments.push_back(segment);
    first = last + 1;
  }
  return segments;
}

std::string describe_segments(std::span<const Part> parts, std::span<const Segment> segments) {
  std::ptrdiff_t recorded = 0;
  for (const Segment& segment : segments) {
    recorded += count_calls(parts.subspan(segment.first, segment.last - segment.first));
  }
  constexpr std::pair<Part, const char*> kOthers[] = {
      {Part::kReturned, "returned"},
      {Part::kElsewhere, "of inputs elsewhere"},
      {Part::kReference, "computed on the host"},
      {Part::kTogether, "exchanged between processes"},
      {Part::kRefused, "refused"}};
  std::string others;
  std::ptrdiff_t calls = count_calls(parts);
  const auto add = [&](std::ptrdiff_t count, const char* why) {
    if (count > 0) others += concat(others.empty() ? "; not recorded: " : ", ", count, " ", why);
  };
  add(calls - recorded, "alone");
  for (const auto& [part, why] : kOthers) {
    const std::ptrdiff_t count = std::ranges::count(parts, part);
    calls += count;
    add(count, why);
  }
  return concat(recorded, " of ", calls, " calls in ", segments.size(), " recordings", others);
}

}  // namespace mezzo::graph
