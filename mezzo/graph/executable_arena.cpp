// The memory of an executable's results: using and releasing the arena.
#include <utility>

#include "mezzo/core/allocation_label.h"
#include "mezzo/core/storage.h"
#include "mezzo/graph/executable.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {

Tensor Executable::make(const ValueSpec& spec, Device device) {
  const Format format = spec.strides == strides_for(spec.shape, Format::kContiguous)
                            ? Format::kContiguous
                            : Format::kChannelsLast;
  return empty(spec.shape, spec.dtype, format, device);
}

Ref<Storage> Executable::make_arena() const {
  const AllocationLabel label("the arena of a graph");
  return make_ref<Storage>(memory_.arena_bytes, program_.device);
}

void Executable::place_in(const Ref<Storage>& arena) {
  if (arena.get() == arena_.get()) return;
  leave_arena();
  arena_ = arena;
  homes_.resize(program_.values.size());
  if (replay_.has_value()) stage_inputs();
  make_homes();
  instructions_.reserve(program_.nodes.size());
  for (Node& node : program_.nodes) make_instruction(node);
  find_done_inputs();
  find_what_passes();
  find_packed_slots();
  find_norms();
  find_read_gradients();
}

// Weights in the arena would keep it alive, and their next reader might come much later.
void Executable::clear_slots() const {
  if (!arena_) return;
  for (const PackedSlot& slot : memory_.packed_slots) {
    program_.values[slot.parameter].tensor.storage()->drop_derived();
  }
}

void Executable::leave_arena() {
  if (!arena_ || keeps_arena()) return;
  clear_slots();
  slots_.clear();
  homes_.clear();
  instructions_.clear();
  viewed_.clear();
  passing_.clear();
  fresh_.clear();
  gradients_.clear();
  arena_ = {};
}

Tensor Executable::in_arena(ValueId value) const {
  const ValueSpec& spec = program_.spec(value);
  auto* bytes = static_cast<std::byte*>(arena_->data());
  void* place = bytes != nullptr ? bytes + memory_.offsets[memory_.blocks[value]] : nullptr;
  Ref<Storage> part =
      make_ref<Storage>(place, spec.bytes(), program_.device, Ref<RefCounted>(arena_.get()));
  return Tensor(make_ref<TensorImpl>(std::move(part), 0, spec.shape, spec.strides, spec.dtype));
}

// Copies inputs to fixed addresses. Inputs have other addresses in every run, so calls that read
// them could not be recorded. Inputs that are returned to the caller, or that host work may keep,
// are not copied: the next run would overwrite them.
void Executable::stage_inputs() {
  const MemoryUse use(program_);
  for (const ValueId input : program_.inputs) {
    const ValueSpec& spec = program_.spec(input);
    Tensor place = make(spec, program_.device);
    const bool fits = ValueSpec::of(place) == spec;
    if (fits && !use.is_returned(input) && !use.may_change(input)) homes_[input] = std::move(place);
  }
}

void Executable::make_homes() {
  for (ValueId v = 0; v < homes_.size(); ++v) {
    if (program_.values[v].kind == ValueKind::kState) homes_[v] = program_.values[v].tensor;
  }
  for (const Node& node : program_.nodes) {
    for (const ValueId output : node.outputs) {
      if (!is_lasting(output)) {
        passing_.push_back(output);
      } else if (node.op->view != nullptr) {
        homes_[output] = node.op->view(homes_[node.inputs[0]], node.attrs);
        const ValueId root = memory_.blocks[output];
        const bool is_of_state = program_.values[root].kind == ValueKind::kState;
        if (is_of_state) viewed_.emplace_back(root, homes_[root].storage());
      } else {
        homes_[output] = in_arena(output);
      }
    }
  }
  for (const ValueId input : program_.inputs) {
    if (!is_lasting(input)) passing_.push_back(input);
  }
  slots_ = homes_;
}

}  // namespace mezzo::graph
