// Determines which nodes of a program are queued together, as one recording (docs/graph.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::graph {

// The role of a node in recordings.
enum class Part : std::uint8_t {
  kCall,       // queues work that is the same in every run, with fixed addresses
  kPrepared,   // the host does it before the recording is launched: copies of parameters, views
  kHostWork,   // this one and all below end a recording
  kReturned,   // the result is allocated in every run: a gradient, or not dense
  kElsewhere,  // reads values whose addresses differ in every run
  kReference,  // computed on the host
  kTogether,   // exchanges values with other processes
  kRefused,    // an attempt to record it failed
};

// The nodes [first, last).
struct Segment {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const Segment&) const = default;
};

// The longest sequences of nodes that can be recorded. Each begins and ends with a call and has at
// least two, because launching a recording takes as long as queueing one kernel.
std::vector<Segment> find_segments(std::span<const Part> parts);

// `364 of 366 calls in 2 recordings; not recorded: 1 returned, 1 refused`, for the log.
std::string describe_segments(std::span<const Part> parts, std::span<const Segment> segments);

}  // namespace mezzo::graph
