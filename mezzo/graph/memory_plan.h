// Where the results of a program lie: one block of memory, in which what is not needed at the same
// time shares its place.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/graph/packed_slots.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// How the elements of a value come into being.
enum class Home : std::uint8_t {
  kOutside,  // an input or a state, or a view of one
  kCopy,     // the 16-bit copy of a parameter, which belongs to the parameter; or a view of one
  kFresh,    // returned by the program: memory of its own in every run; or a view of such
  kArena,    // a place in the arena
  kReaders,  // nowhere: computed by those who read it
};

// A range of the arena, in bytes.
struct ArenaRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct MemoryPlan {
  std::vector<Home> homes;           // for each value
  std::vector<ValueId> blocks;       // for each value, whose memory it lies in: its own, or that of
                                     // what it views or is written over
  std::vector<std::size_t> offsets;  // in the arena, in bytes; of values that are blocks
  std::size_t arena_bytes = 0;
  // Of which all lie where no value needs the arena at the time.
  std::vector<PackedSlot> packed_slots;
  // For each node, the largest part of the arena that nothing lies in while it runs: room for what
  // its kernel needs meanwhile.
  std::vector<ArenaRange> free_ranges;
  // The most that is alive at a time; no arrangement takes less.
  std::size_t least_bytes = 0;
};

// Results are alive from the node that makes them to the last one that reads them or a view of
// them. Larger ones are placed first, each as low as what is alive at the same time allows
// (the greedy-by-size rule of Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020); where the arena is smaller for it, what is alive at the peak is placed before
// all else, in the order in which it comes.
//
// `copies_results`: what the program returns is going to be copied out of the arena, except for
// gradients of leaves, which may be as large as all parameters, and what is not dense.
MemoryPlan plan_memory(const Program& program, bool copies_results = false);

// What is alive when most of the arena is in use.
struct MemoryPeak {
  std::size_t bytes = 0;
  std::vector<ValueId> blocks;
};
// Far cheaper than a plan, which finds a place for all of it.
MemoryPeak memory_peak(const Program& program);

// True for a cast of a trained parameter to 16 bits: the copy is made once per update, and belongs
// to the parameter (mezzo/core/derived.h).
bool is_parameter_copy(const Program& program, const Node& node);

}  // namespace mezzo::graph
