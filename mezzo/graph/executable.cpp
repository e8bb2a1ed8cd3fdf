#include "mezzo/graph/executable.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mezzo/core/random.h"
#include "mezzo/core/storage.h"
#include "mezzo/graph/move_host_work.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::graph {
namespace {

// The tensor for absent optional inputs.
const Tensor& absent() {
  static const Tensor none;
  return none;
}

}  // namespace

Executable::Executable(Program program, std::unique_ptr<WorkRecorder> recorder)
    : program_(recorder != nullptr ? with_host_work_moved(std::move(program)) : std::move(program)),
      memory_(plan_memory(program_, recorder != nullptr)) {
  check_runnable();
  if (recorder != nullptr) replay_.emplace(std::move(recorder));
}

Executable::~Executable() { clear_slots(); }

void Executable::find_packed_slots() {
  const std::size_t end = first_of_last_host_work(program_);
  for (Instruction& instruction : instructions_) {
    const auto node = static_cast<std::size_t>(instruction.node - program_.nodes.data());
    if (node >= end) instruction.writer = end;
    if (instruction.node->is_part) instruction.writer = node;
    const auto slot = std::ranges::find(memory_.packed_slots, node, &PackedSlot::reader);
    if (slot == memory_.packed_slots.end()) continue;
    instruction.packed_slot = static_cast<std::size_t>(slot - memory_.packed_slots.begin());
  }
}

// Finds the tensors that a run leaves behind and that must be cleared before the next one.
void Executable::find_what_passes() {
  for (Instruction& instruction : instructions_) {
    const Node& node = *instruction.node;
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
      if (!is_lasting(node.outputs[i])) fresh_.push_back(&instruction.outputs[i]);
    }
    const std::size_t first = node.inputs.size() - node.leaves.size();
    for (std::size_t i = first; i < node.inputs.size(); ++i) {
      const ValueId grad = node.inputs[i];
      if (grad != kNoValue && is_lasting(grad)) gradients_.push_back(grad);
    }
  }
}

// Kernels cache weights in their own layouts for later calls. In a step each weight is read once in
// the forward pass and once in the backward pass, in two layouts, so cached ones are freed after
// their last use.
void Executable::find_done_inputs() {
  std::set<std::pair<const OpDef*, ValueId>> read_later;
  std::set<ValueId> needed_later(program_.outputs.begin(), program_.outputs.end());
  for (auto instruction = instructions_.rbegin(); instruction != instructions_.rend();
       ++instruction) {
    for (const ValueId input : instruction->node->inputs) {
      if (input == kNoValue) continue;
      const Home home = memory_.homes[input];
      if (home != Home::kCopy && home != Home::kReaders) continue;
      if (needed_later.insert(input).second) instruction->unneeded.push_back(input);
      if (instruction->node->is_host() || home != Home::kCopy) continue;
      const bool is_last = read_later.emplace(instruction->node->op, input).second;
      if (is_last) instruction->done.push_back(input);
    }
  }
}

void Executable::check_runnable() const {
  for (const Value& value : program_.values) {
    check_arg(value.kind != ValueKind::kState || value.tensor.defined(), kOp, "the state ",
              value.name, " has no tensor. Programs that were read from text cannot run");
  }
  for (const Node& node : program_.nodes) {
    check_arg(!node.is_host() || node.work != nullptr, kOp, "the host work ", node.host,
              " has no function. Programs that were read from text cannot run");
  }
}

// True if the value has the same address in every run.
bool Executable::is_lasting(ValueId value) const {
  switch (memory_.homes[value]) {
    case Home::kArena: return true;
    case Home::kOutside: return homes_[memory_.blocks[value]].defined();
    case Home::kCopy:
    case Home::kFresh:
    case Home::kReaders: return false;
  }
  return false;
}

void Executable::make_instruction(Node& node) {
  const bool is_view = node.op != nullptr && node.op->view != nullptr;
  if (is_view && is_lasting(node.outputs[0])) return;
  Instruction instruction{.node = &node};
  for (const ValueId input : node.inputs) {
    instruction.inputs.push_back(input != kNoValue ? &slots_[input] : &absent());
  }
  if (!node.is_host() && !is_view) {
    instruction.is_copy = is_parameter_copy(program_, node);
    instruction.is_by_readers = memory_.homes[node.outputs[0]] == Home::kReaders;
    for (const ValueId output : node.outputs) instruction.outputs.push_back(homes_[output]);
    instruction.is_empty = std::ranges::all_of(
        node.outputs, [&](ValueId output) { return program_.spec(output).shape.numel() == 0; });
  }
  instructions_.push_back(std::move(instruction));
}

void Executable::bind(std::span<const Tensor> inputs) {
  check_arg(inputs.size() == program_.inputs.size(), kOp, "the step has ", program_.inputs.size(),
            " inputs, ", inputs.size(), " were given. Pass as many as it has");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueSpec& wanted = program_.spec(program_.inputs[i]);
    check_arg(inputs[i].defined() && ValueSpec::of(inputs[i]) == wanted, kOp, "input ", i, " is ",
              inputs[i], ", the step was captured for ", wanted.dtype, wanted.shape,
              ". Capture it again");
    check_arg(inputs[i].device() == program_.device, kOp, "input ", i, " is on ",
              inputs[i].device(), ", the step was captured on ", program_.device,
              ". Use to(), or capture it again");
    check_arg(!grad_enabled() || !inputs[i].requires_grad(), kOp, "input ", i, ", ", inputs[i],
              ", requires a gradient, which a captured step does not return. Use detach()");
    check_apart(inputs[i], i);
    const ValueId input = program_.inputs[i];
    if (is_lasting(input)) {
      copy_elements(inputs[i], homes_[input]);
    } else {
      slots_[input] = inputs[i];
    }
  }
  move_random_start();
}

// Inputs must not change during a run, because calls that read them are fused and moved.
void Executable::check_apart(const Tensor& input, std::size_t i) const {
  for (const Node& node : program_.nodes) {
    for (const Tensor& leaf : node.leaves) {
      check_arg(leaf.storage() != input.storage(), kOp, "input ", i, ", ", input,
                ", lies in the memory of a parameter that the step updates. Pass a copy");
    }
  }
}

void Executable::check_no_gradients() const {
  for (const Tensor& leaf : program_.adds_to) {
    check_arg(
        !leaf.grad().defined(), kOp, "a parameter, ", leaf,
        ", has a gradient from before the run, and a captured step does not add to it. Call "
        "zero_grad() before each run or in the step, or accumulate gradients within one step");
  }
}

// Views of a state are made once, and the state may have been moved to other memory since.
void Executable::follow_states() {
  bool have_moved = false;
  for (auto& [state, storage] : viewed_) {
    have_moved = have_moved || homes_[state].storage().get() != storage.get();
    storage = homes_[state].storage();
  }
  if (!have_moved) return;
  for (const Node& node : program_.nodes) {
    if (node.is_host() || node.op->view == nullptr || !is_lasting(node.outputs[0])) continue;
    homes_[node.outputs[0]] = node.op->view(homes_[node.inputs[0]], node.attrs);
    slots_[node.outputs[0]] = homes_[node.outputs[0]];
  }
}

void Executable::move_random_start() {
  if (program_.random_words == 0) return;
  const RandomPosition start = default_generator().reserve(program_.random_words);
  if (program_.random_start == kNoValue) return;
  copy_elements(to_tensor(start), homes_[program_.random_start]);
}

std::vector<Tensor> Executable::run(std::span<const Tensor> inputs) {
  struct Forget {
    Executable& executable;
    ~Forget() { executable.forget(); }
  } forget_in_the_end{*this};
  if (!arena_) place_in(make_arena());
  check_no_gradients();
  bind(inputs);
  follow_states();
  // A listener is told of each call, so nothing is replayed as a whole.
  const bool is_recorded = replay_.has_value() && call_listener() == nullptr;
  const bool replays = is_recorded && replay_->begin_run();
  if (replays && !replay_->is_planned()) plan_replay();
  if (!run_nodes(replays)) return {};
  if (is_recorded) replay_->end_run();
  return take_outputs();
}

bool Executable::run_nodes(bool replays) {
  for (std::size_t i = 0; i < instructions_.size();) {
    RecordedSegment* segment = replays ? replay_->segment_at(i) : nullptr;
    if (segment != nullptr && run_segment(*segment)) {
      i = segment->range().last;
      continue;
    }
    if (!run_instruction(instructions_[i])) return false;
    ++i;
  }
  return true;
}

bool Executable::run_instruction(Instruction& instruction) {
  const Node& node = *instruction.node;
  if (node.is_host()) {
    if (does_host_work() && !run_host(instruction)) return false;
  } else if (is_prepared(instruction)) {
    prepare(instruction);
  } else {
    run_kernel(instruction);
  }
  if (!node.is_host() && call_listener() != nullptr) [[unlikely]]
    tell_listener(instruction);
  let_go(instruction);
  return true;
}

void Executable::tell_listener(const Instruction& instruction) const {
  const Node& node = *instruction.node;
  std::vector<Tensor> outputs;
  std::vector<ResultId> names;
  for (const ValueId output : node.outputs) {
    outputs.push_back(slots_[output]);
    names.push_back(program_.values[output].made_by);
    CallId& call = names.back().call;
    // A result of a pass, which no call of eager mode has: it must not take the name of one.
    if (call.op.empty()) call = {.path = node.path, .op = concat(node.op->name, "#graph", output)};
  }
  call_listener()->on_finished({*node.op, instruction.inputs, node.attrs, outputs, names,
                                program_.values[node.outputs[0]].joined});
}

// Makes a view or the copy of a parameter. This queues no work if the copy exists already.
void Executable::prepare(Instruction& instruction) {
  const Node& node = *instruction.node;
  const Tensor& input = *instruction.inputs[0];
  if (node.op->view != nullptr) {
    slots_[node.outputs[0]] = node.op->view(input, node.attrs);
  } else if (instruction.is_by_readers) {
    slots_[node.outputs[0]] = result_when_read(instruction);
  } else {
    const NoGrad guard;
    slots_[node.outputs[0]] = cast(input, program_.spec(node.outputs[0]).dtype);
  }
}

void Executable::run_kernel(Instruction& instruction) {
  place_outputs(instruction);
  queue(instruction);
  if (instruction.is_by_readers) {
    slots_[instruction.node->outputs[0]] = result_when_read(instruction);
  }
  drop_packed(instruction);
}

void Executable::place_outputs(Instruction& instruction) {
  const Node& node = *instruction.node;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    Tensor& tensor = instruction.outputs[i];
    if (memory_.homes[output] == Home::kReaders) continue;
    if (memory_.homes[output] == Home::kFresh) {
      const ValueId block = memory_.blocks[output];
      tensor = block == output ? make(program_.spec(output), program_.device) : slots_[block];
      slots_[output] = tensor;
    } else {
      tensor.bump_version();  // copies that kernels have made of the previous contents are stale
    }
  }
  // Tells the kernel to compute the statistics only.
  if (instruction.is_by_readers) instruction.outputs[0] = result_when_read(instruction);
}

void Executable::queue(Instruction& instruction) {
  if (instruction.node->is_queued()) {
    with_gradients(instruction, instruction.node->work);
    return;
  }
  if (instruction.is_empty) return;
  const Attrs& attrs = instruction.node->attrs;
  if (!instruction.call.has_value()) {
    instruction.call.emplace(*instruction.node->op, instruction.inputs, instruction.outputs, attrs);
  }
  call_kernel(instruction);
}

void Executable::let_go(const Instruction& instruction) {
  for (const ValueId value : instruction.unneeded) slots_[value] = Tensor();
}

void Executable::drop_packed(const Instruction& instruction) {
  if (instruction.packed_slot.has_value()) {
    const PackedSlot& slot = memory_.packed_slots[*instruction.packed_slot];
    clear_slot(slot, slots_[slot.weight]);
  }
  for (const ValueId value : instruction.done) {
    for (const Ref<PackedCopy>& copy : packed_copies_of(*slots_[value].storage())) {
      copy->let_go_if_read();
    }
  }
}

bool Executable::run_host(Instruction& instruction) {
  std::optional<OfferSlots> slots;
  if (instruction.writer.has_value()) {
    slots.emplace(memory_.packed_slots, program_, arena_, *instruction.writer);
  }
  const WithoutCallListener not_of_the_step;
  if (instruction.node->is_queued()) make_ready(instruction);
  return with_gradients(instruction, instruction.node->work);
}

// Does the host's part of queued work, and only once in a run, even if recording it fails.
void Executable::make_ready(Instruction& instruction) {
  if (std::exchange(instruction.is_ready, true)) return;
  with_gradients(instruction, [&](std::span<const Tensor>) {
    instruction.node->prepare();
    return true;
  });
}

std::vector<Tensor> Executable::take_outputs() {
  std::vector<Tensor> outputs;
  for (const ValueId output : program_.outputs) {
    const Tensor& tensor = slots_[output];
    if (memory_.homes[output] == Home::kArena) {
      ValueSpec spec = program_.spec(output);
      spec.dtype = tensor.dtype();  // host work may have changed a gradient's dtype
      outputs.push_back(make(spec, program_.device));
      copy_elements(tensor, outputs.back());
    } else {
      outputs.push_back(tensor);
    }
  }
  const std::size_t first = outputs.size() - program_.leaves.size();
  for (std::size_t i = 0; i < program_.leaves.size(); ++i) {
    program_.leaves[i].set_grad(std::move(outputs[first + i]));
  }
  outputs.resize(first);
  return outputs;
}

// Releases everything that belongs to one run.
void Executable::forget() {
  for (const ValueId value : passing_) slots_[value] = Tensor();
  for (const ValueId value : gradients_) slots_[value] = homes_[value];
  for (Tensor* tensor : fresh_) *tensor = Tensor();
  for (Instruction& instruction : instructions_) instruction.is_ready = false;
}

}  // namespace mezzo::graph
