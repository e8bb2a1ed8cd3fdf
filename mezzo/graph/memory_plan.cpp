#include "mezzo/graph/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "mezzo/core/math.h"
#include "mezzo/graph/gradients_by_updates.h"
#include "mezzo/graph/norms_by_readers.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

// Rounds up to the alignment of blocks, which is that of the devices' allocators. 64 bytes are a
// vector and a cache line; GPU kernels are chosen for 256.
std::size_t aligned(std::size_t bytes, Device device) {
  const std::size_t alignment = device.is_cpu() ? 64 : 256;
  return round_up(bytes, alignment);
}

bool is_dense(const ValueSpec& spec) {
  return spec.strides == strides_for(spec.shape, Format::kContiguous) ||
         (spec.shape.rank() == 4 && spec.strides == strides_for(spec.shape, Format::kChannelsLast));
}

// The lifetime of a block, as indices of nodes.
struct Life {
  std::size_t first = 0;
  std::size_t last = 0;
};

bool meet(const Life& a, const Life& b) { return a.first <= b.last && b.first <= a.last; }

// Further outputs of a call after its first result: the statistics of a normalisation.
std::span<const ValueId> found_by(const Node& node) { return std::span(node.outputs).subspan(1); }

// For each node, whether its readers compute its first result.
std::vector<bool> left_to_readers(const Program& program) {
  std::vector<bool> left = norms_by_readers(program);
  const std::vector<bool> gradients = gradients_by_updates(program);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] || gradients[i];
  return left;
}

// Determines the home of each value, and which values share a block.
class Blocks {
 public:
  Blocks(const Program& program, bool copies_results)
      : program_(program),
        copies_results_(copies_results),
        // Recorded calls compute their own results.
        by_readers_(copies_results ? std::vector<bool>(program.nodes.size(), false)
                                   : left_to_readers(program)) {
    plan_.homes.assign(program.values.size(), Home::kOutside);
    plan_.blocks.resize(program.values.size());
    std::iota(plan_.blocks.begin(), plan_.blocks.end(), ValueId{0});
    find_last_reads();
    for (std::size_t i = 0; i < program.nodes.size(); ++i) place_outputs(i);
    mark_returned();
  }

  MemoryPlan take() { return std::move(plan_); }

 private:
  // The last reader of each value itself; reads through views are added later.
  void find_last_reads() {
    last_read_.assign(program_.values.size(), 0);
    for (std::size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& node = program_.nodes[i];
      if (node.op != nullptr && node.op->view != nullptr) {
        last_read_[node.inputs[0]] =
            std::max(last_read_[node.inputs[0]], last_read_[node.outputs[0]]);
      }
      const auto read_at = [&](ValueId value, std::size_t at) {
        if (value != kNoValue) last_read_[value] = std::max(last_read_[value], at);
      };
      const std::size_t read = by_readers_[i] ? std::max(i, last_read_[node.outputs[0]]) : i;
      for (const ValueId input : node.inputs) read_at(input, read);
      if (by_readers_[i]) {
        for (const ValueId found : found_by(node)) read_at(found, read);
      }
    }
    for (const ValueId output : program_.outputs) last_read_[output] = program_.nodes.size();
  }

  void place_outputs(std::size_t i) {
    const Node& node = program_.nodes[i];
    if (node.is_host()) return;
    if (node.op->view != nullptr) {
      const ValueId base = plan_.blocks[node.inputs[0]];
      plan_.blocks[node.outputs[0]] = base;
      plan_.homes[node.outputs[0]] = plan_.homes[base];
      return;
    }
    const bool is_copy = is_parameter_copy(program_, node);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId output = node.outputs[k];
      if (k == 0 && by_readers_[i]) {
        plan_.homes[output] = Home::kReaders;
        continue;
      }
      plan_.homes[output] = is_copy ? Home::kCopy : Home::kArena;
      if (k < node.over.size() && can_be_written_over(node.over[k], output, i)) {
        plan_.blocks[output] = plan_.blocks[node.over[k]];
      }
    }
  }

  // True if `output`, which node i makes, can lie where `value` lies.
  bool can_be_written_over(ValueId value, ValueId output, std::size_t i) const {
    if (value == kNoValue || plan_.homes[value] != Home::kArena) return false;
    if (!(program_.spec(value) == program_.spec(output))) return false;
    const ValueId block = plan_.blocks[value];
    if (program_.spec(block).bytes() != program_.spec(output).bytes()) return false;
    for (ValueId v = 0; v < plan_.blocks.size(); ++v) {
      const bool shares = plan_.blocks[v] == block && v != output;
      if (shares && last_read_[v] > i) return false;
      if (shares && v != value && last_read_[v] == i) return false;
    }
    return true;
  }

  // Values that the program returns outlive the run, and so do all values that share their block.
  void mark_returned() {
    std::vector<bool> fresh(program_.values.size(), false);
    const std::size_t results = program_.outputs.size() - program_.leaves.size();
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const ValueId output = program_.outputs[i];
      const bool is_copied = copies_results_ && i < results && is_dense(program_.spec(output));
      if (plan_.homes[output] == Home::kArena && !is_copied) fresh[plan_.blocks[output]] = true;
    }
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (fresh[plan_.blocks[v]]) plan_.homes[v] = Home::kFresh;
    }
  }

  const Program& program_;
  bool copies_results_;
  std::vector<bool> by_readers_;
  MemoryPlan plan_;
  std::vector<std::size_t> last_read_;
};

std::vector<Life> lives_of_blocks(const Program& program, const MemoryPlan& plan) {
  std::vector<Life> lives(program.values.size());
  std::vector<bool> begun(program.values.size(), false);
  const auto extend = [&](ValueId value, std::size_t at) {
    const ValueId block = plan.blocks[value];
    if (!begun[block]) lives[block].first = at;
    begun[block] = true;
    lives[block].last = at;
  };
  const std::vector<std::size_t> all_makers = makers(program);
  const auto extend_all = [&](std::span<const ValueId> values, std::size_t at) {
    for (const ValueId value : values) {
      if (value != kNoValue) extend(value, at);
    }
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    extend_all(program.nodes[i].inputs, i);
    for (const ValueId input : program.nodes[i].inputs) {
      if (input == kNoValue || plan.homes[input] != Home::kReaders) continue;
      const Node& maker = program.nodes[all_makers[input]];
      extend_all(maker.inputs, i);
      extend_all(found_by(maker), i);
    }
    for (const ValueId output : program.nodes[i].outputs) extend(output, i);
  }
  for (const ValueId output : program.outputs) extend(output, program.nodes.size());
  return lives;
}

// The lowest offset for `bytes` between blocks that are already placed and alive at the same time.
std::size_t lowest_gap(std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t bytes) {
  std::ranges::sort(taken);
  std::size_t place = 0;
  for (const auto& [begin, end] : taken) {
    if (place + bytes <= begin) break;
    place = std::max(place, end);
  }
  return place;
}

// A block of the arena, and the bytes that it takes there.
struct PlacedBlock {
  ValueId value{};
  std::size_t bytes = 0;
  Life life;
  std::size_t offset = 0;

  std::size_t end() const { return offset + bytes; }
  bool is_alive_at(std::size_t node) const { return meet(life, {node, node}); }
};

// The blocks of a plan, without offsets.
std::vector<PlacedBlock> blocks_of_arena(const Program& program, const MemoryPlan& plan) {
  const std::vector<Life> lives = lives_of_blocks(program, plan);
  std::vector<PlacedBlock> blocks;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (plan.homes[v] != Home::kArena || plan.blocks[v] != v) continue;
    blocks.push_back({v, aligned(program.spec(v).bytes(), program.device), lives[v]});
  }
  return blocks;
}

// The node at which most memory is alive, and the bytes.
struct Peak {
  std::size_t node = 0;
  std::size_t bytes = 0;
};

Peak peak_of(const Program& program, std::span<const PlacedBlock> blocks) {
  std::vector<std::int64_t> change(program.nodes.size() + 2, 0);
  for (const PlacedBlock& block : blocks) {
    change[block.life.first] += static_cast<std::int64_t>(block.bytes);
    change[block.life.last + 1] -= static_cast<std::int64_t>(block.bytes);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  const auto most = std::ranges::max_element(change);
  return {static_cast<std::size_t>(most - change.begin()), static_cast<std::size_t>(*most)};
}

// Places one block after the other at the lowest free offset. Returns the bytes of the arena.
std::size_t place_in_order(std::span<PlacedBlock> blocks) {
  std::size_t arena = 0;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    taken.clear();
    for (const PlacedBlock& other : blocks.first(i)) {
      if (meet(blocks[i].life, other.life)) taken.emplace_back(other.offset, other.end());
    }
    blocks[i].offset = lowest_gap(taken, blocks[i].bytes);
    arena = std::max(arena, blocks[i].end());
  }
  return arena;
}

// Orders the blocks that are alive at the peak before all others, by the beginning of their lives.
// They are then stacked without gaps. Before and after the peak their free space is contiguous at
// the top, because a backward pass reads the last results first.
std::vector<PlacedBlock> peak_first(std::vector<PlacedBlock> blocks, std::size_t peak) {
  const auto others =
      std::stable_partition(blocks.begin(), blocks.end(),
                            [&](const PlacedBlock& block) { return block.is_alive_at(peak); });
  std::stable_sort(blocks.begin(), others, [](const PlacedBlock& a, const PlacedBlock& b) {
    return a.life.first < b.life.first;
  });
  return blocks;
}

// Assigns offsets to the blocks.
void arrange(const Program& program, std::vector<PlacedBlock>& blocks, MemoryPlan& plan) {
  const Peak peak = peak_of(program, blocks);
  plan.least_bytes = peak.bytes;
  std::ranges::stable_sort(blocks, std::greater<>(), &PlacedBlock::bytes);
  plan.arena_bytes = place_in_order(blocks);
  if (plan.arena_bytes > plan.least_bytes) {
    std::vector<PlacedBlock> others = peak_first(blocks, peak.node);
    const std::size_t arena = place_in_order(others);
    if (arena < plan.arena_bytes) {
      plan.arena_bytes = arena;
      blocks = std::move(others);
    }
  }
  plan.offsets.assign(program.values.size(), 0);
  for (const PlacedBlock& block : blocks) plan.offsets[block.value] = block.offset;
}

// Places slots where the arena is free from the update of a run to the reader in the next one. No
// slot is worth a larger arena. The largest are placed first, since packing those later takes
// longest.
void arrange_slots(const Program& program, std::span<const PlacedBlock> blocks, MemoryPlan& plan) {
  std::vector<PackedSlot> wanted = wanted_slots(program);
  std::ranges::stable_sort(wanted, std::greater<>(), &PackedSlot::bytes);
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (PackedSlot& slot : wanted) {
    const Life beginning{0, slot.reader};
    const Life end{slot.writer, program.nodes.size()};
    taken.clear();
    for (const PlacedBlock& block : blocks) {
      if (!meet(block.life, beginning) && !meet(block.life, end)) continue;
      taken.emplace_back(block.offset, block.end());
    }
    for (const PackedSlot& other : plan.packed_slots) {  // at the end of a run all slots are in use
      taken.emplace_back(other.offset, other.offset + aligned(other.bytes, program.device));
    }
    const std::size_t bytes = aligned(slot.bytes, program.device);
    slot.offset = lowest_gap(taken, bytes);
    if (slot.offset + bytes <= plan.arena_bytes) plan.packed_slots.push_back(slot);
  }
}

// Whether the contents of the slot are needed at a node: they are not between the reader and the
// writer.
bool is_slot_in_use(const PackedSlot& slot, std::size_t node) {
  return node <= slot.reader || node >= slot.writer;
}

ArenaRange largest_gap(std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t arena) {
  std::ranges::sort(taken);
  taken.emplace_back(arena, arena);
  ArenaRange largest;
  std::size_t end_of_last = 0;
  for (const auto& [begin, end] : taken) {
    if (begin > end_of_last && begin - end_of_last > largest.bytes) {
      largest = {end_of_last, begin - end_of_last};
    }
    end_of_last = std::max(end_of_last, end);
  }
  return largest;
}

std::vector<ArenaRange> free_ranges(const Program& program, std::span<const PlacedBlock> blocks,
                                    const MemoryPlan& plan) {
  std::vector<ArenaRange> ranges;
  ranges.reserve(program.nodes.size());
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    taken.clear();
    for (const PlacedBlock& block : blocks) {
      if (block.is_alive_at(i)) taken.emplace_back(block.offset, block.end());
    }
    for (const PackedSlot& slot : plan.packed_slots) {
      if (!is_slot_in_use(slot, i)) continue;
      taken.emplace_back(slot.offset, slot.offset + aligned(slot.bytes, program.device));
    }
    ranges.push_back(largest_gap(taken, plan.arena_bytes));
  }
  return ranges;
}

}  // namespace

bool is_parameter_copy(const Program& program, const Node& node) {
  if (!is_cast(node) || !is_lower(program.spec(node.outputs[0]).dtype)) return false;
  const Tensor& source = program.values[node.inputs[0]].tensor;
  return source.defined() && source.is_leaf() && source.requires_grad() && source.is_one_block();
}

MemoryPlan plan_memory(const Program& program, bool copies_results) {
  MemoryPlan plan = Blocks(program, copies_results).take();
  std::vector<PlacedBlock> blocks = blocks_of_arena(program, plan);
  arrange(program, blocks, plan);
  // Recorded calls read weights where they are.
  if (!copies_results) {
    arrange_slots(program, blocks, plan);
    plan.free_ranges = free_ranges(program, blocks, plan);
  }
  return plan;
}

MemoryPeak memory_peak(const Program& program) {
  const std::vector<PlacedBlock> blocks = blocks_of_arena(program, Blocks(program, false).take());
  const Peak peak = peak_of(program, blocks);
  MemoryPeak result{.bytes = peak.bytes, .blocks = {}};
  for (const PlacedBlock& block : blocks) {
    if (block.is_alive_at(peak.node)) result.blocks.push_back(block.value);
  }
  return result;
}

}  // namespace mezzo::graph
