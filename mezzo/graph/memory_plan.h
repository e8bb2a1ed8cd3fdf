// The memory plan of a program: one arena, in which values that are not needed at the same time
// share memory.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/graph/packed_slots.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Where the elements of a value are stored.
enum class Home : std::uint8_t {
  kOutside,  // an input or a state, or a view of one
  kCopy,     // the 16-bit copy of a parameter, which the parameter owns; or a view of one
  kFresh,    // returned by the program: allocated in every run; or a view of such
  kArena,    // at an offset in the arena
  kReaders,  // nowhere: its readers compute it
};

// A range of the arena, in bytes.
struct ArenaRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct MemoryPlan {
  std::vector<Home> homes;           // for each value
  std::vector<ValueId> blocks;       // for each value: itself, or what it views or overwrites
  std::vector<std::size_t> offsets;  // in the arena, in bytes; for values that are blocks
  std::size_t arena_bytes = 0;
  // Slots for packed weights, in parts of the arena that are free from writer to reader.
  std::vector<PackedSlot> packed_slots;
  // For each node, the largest free part of the arena while it runs: scratch memory for its kernel.
  std::vector<ArenaRange> free_ranges;
  // The most bytes that are alive at a time, a lower bound for every arrangement.
  std::size_t least_bytes = 0;
};

// Results are alive from the node that makes them to the last one that reads them or a view of
// them. Larger ones are placed first, each at the lowest offset that is free of results alive at
// the same time (the greedy-by-size rule of Pisarchyk and Lee, "Efficient memory management for
// deep neural net inference", 2020). If that makes the arena smaller, results that are alive at the
// peak are placed before all others, in order of their first use.
//
// `copies_results`: results of the program will be copied out of the arena. Exceptions are
// gradients of leaves, which may be as large as all parameters, and results that are not dense.
MemoryPlan plan_memory(const Program& program, bool copies_results = false);

// The values that are alive when most of the arena is in use.
struct MemoryPeak {
  std::size_t bytes = 0;
  std::vector<ValueId> blocks;
};
// Computes the peak, which is far cheaper than a plan with offsets.
MemoryPeak memory_peak(const Program& program);

// True for a cast of a trained parameter to 16 bits: the copy is made once per update, and the
// parameter owns it (mezzo/core/derived.h).
bool is_parameter_copy(const Program& program, const Node& node);

}  // namespace mezzo::graph
