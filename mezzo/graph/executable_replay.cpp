// Executable's part in recording and replaying segments.
#include <algorithm>
#include <set>

#include "mezzo/graph/executable.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::graph {

Part Executable::part_of(const Instruction& instruction) const {
  const Node& node = *instruction.node;
  if (node.is_host() && !node.is_queued()) return Part::kHostWork;
  if (is_prepared(instruction)) return Part::kPrepared;
  const auto lasts = [&](ValueId value) { return value == kNoValue || is_lasting(value); };
  if (!std::ranges::all_of(node.outputs, lasts)) return Part::kReturned;
  const bool is_near = std::ranges::all_of(node.inputs, [&](ValueId value) {
    return lasts(value) || memory_.homes[value] == Home::kCopy;
  });
  if (!is_near) return Part::kElsewhere;
  const bool on_host = instruction.call.has_value() && instruction.call->is_reference();
  if (on_host) return Part::kReference;
  const bool exchanges =
      !node.is_host() && node.op->exchanges != nullptr && node.op->exchanges(node.attrs);
  return exchanges ? Part::kTogether : Part::kCall;
}

void Executable::plan_replay() {
  std::vector<Part> parts;
  std::vector<const Node*> nodes;
  for (const Instruction& instruction : instructions_) {
    parts.push_back(part_of(instruction));
    nodes.push_back(instruction.node);
  }
  replay_->plan(std::move(parts), nodes);
}

// Runs the segment's nodes. Returns false if they must run eagerly.
bool Executable::run_segment(RecordedSegment& segment) {
  if (!segment.may_record()) return false;
  const Segment range = segment.range();
  const auto instructions = std::span(instructions_).subspan(range.first, range.last - range.first);
  for (Instruction& instruction : instructions) {
    if (is_prepared(instruction)) prepare(instruction);
  }
  look_around(segment);
  prepare_queued(range);
  if (!segment.holds(now_) && !record(segment)) return false;
  for (Instruction& instruction : instructions) {
    if (!is_prepared(instruction)) place_outputs(instruction);
  }
  segment.launch();
  for (const Instruction& instruction : instructions) {
    if (!is_prepared(instruction)) drop_packed(instruction);
    let_go(instruction);
  }
  return true;
}

// Does the host's part of queued work. Updates renew only copies of parameters that nobody holds.
// The calls before them count as done, so copies are released meanwhile.
void Executable::prepare_queued(const Segment& segment) {
  const auto instructions =
      std::span(instructions_).subspan(segment.first, segment.last - segment.first);
  const auto is_queued = [](const Instruction& i) { return i.node->is_queued(); };
  if (std::ranges::none_of(instructions, is_queued)) return;
  for (const Instruction& instruction : instructions) let_go(instruction);
  for (Instruction& instruction : instructions) {
    if (is_queued(instruction)) make_ready(instruction);
  }
  take_copies_again(segment);
}

// Takes the released copies, and views of them, again.
void Executable::take_copies_again(const Segment& segment) {
  std::set<ValueId> wanted;
  for (std::size_t i = segment.first; i < segment.last; ++i) {
    wanted.insert(instructions_[i].unneeded.begin(), instructions_[i].unneeded.end());
  }
  std::vector<ValueId> on_the_way;  // copies that are only needed for views
  for (std::size_t i = 0; i < segment.last; ++i) {
    Instruction& instruction = instructions_[i];
    if (!is_prepared(instruction)) continue;
    const ValueId output = instruction.node->outputs[0];
    if (memory_.homes[output] != Home::kCopy || slots_[output].defined()) continue;
    prepare(instruction);
    if (!wanted.contains(output)) on_the_way.push_back(output);
  }
  for (const ValueId value : on_the_way) slots_[value] = Tensor();
}

bool Executable::record(RecordedSegment& segment) {
  segment.drop();
  if (!segment.may_record()) return false;
  const auto work = [this, range = segment.range()] {
    for (std::size_t i = range.first; i < range.last; ++i) {
      recorded_to_ = i;
      if (!is_prepared(instructions_[i])) queue(instructions_[i]);
    }
    recorded_to_ = range.last;
  };
  recorded_to_ = segment.range().last;  // applies unless the work gets to set it
  return replay_->record(segment, now_, work, recorded_to_);
}

// Notes the current addresses of the segment's values. Reading the address of a parameter's copy
// fills the copy, which must happen before recording: otherwise the recording would contain the
// filling.
void Executable::look_around(const RecordedSegment& segment) {
  now_.places.clear();
  for (const ValueId value : segment.reads()) now_.places.push_back(slots_[value].address());
  now_.tf32 = is_tf32_allowed();
  now_.moves = count_of_moves();
}

}  // namespace mezzo::graph
