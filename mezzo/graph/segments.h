// Which nodes of a program are queued together, as one recording (docs/graph.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::graph {

// What a node is to a recording.
enum class Part : std::uint8_t {
  kCall,       // queues work that is the same in every run, from places and to places that last
  kPrepared,   // the host does it before the recording is launched: copies of parameters, views
  kHostWork,   // the others end a recording
  kReturned,   // the result is memory of its own in every run: a gradient, or not dense
  kElsewhere,  // reads what lies elsewhere in every run
  kReference,  // computed on the host
  kRefused,    // an attempt to record it failed
};

// The nodes [first, last).
struct Segment {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const Segment&) const = default;
};

// The longest runs of nodes that can be recorded. Each begins and ends with a call and has at least
// two: to launch a recording takes as long as to queue one kernel.
std::vector<Segment> find_segments(std::span<const Part> parts);

// `364 of 366 calls in 2 recordings; not recorded: 1 returned, 1 refused`, for the log.
std::string describe_segments(std::span<const Part> parts, std::span<const Segment> segments);

}  // namespace mezzo::graph
