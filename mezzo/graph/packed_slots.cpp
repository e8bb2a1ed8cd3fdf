#include "mezzo/graph/packed_slots.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "mezzo/core/storage.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

constexpr std::size_t kWeightInput = 1;

// An operation that reads a convolution's weight, and the pass in which it does, which determines
// the layout.
struct WeightReader {
  const OpDef* op;
  ReadIn pass;
};

const WeightReader* weight_reader(const Node& node) {
  static constexpr WeightReader readers[] = {{&ops::conv2d, ReadIn::kForward},
                                             {&ops::conv2d_activation, ReadIn::kForward},
                                             {&ops::conv2d_grad_input, ReadIn::kBackward},
                                             {&ops::conv_transpose2d, ReadIn::kBackward}};
  const auto* const found = std::ranges::find(readers, node.op, &WeightReader::op);
  return found != std::end(readers) ? found : nullptr;
}

// The trained f32 parameter that a value is, or is the 16-bit copy of.
ValueId parameter_of(const Program& program, ValueId value, std::size_t maker) {
  if (maker != kNoNode) {
    const Node& node = program.nodes[maker];
    return !node.is_host() && is_parameter_copy(program, node) ? node.inputs[0] : kNoValue;
  }
  const Value& state = program.values[value];
  return state.kind == ValueKind::kState && state.tensor.defined() ? value : kNoValue;
}

// The update parts, by the parameters that they change.
std::map<const TensorImpl*, std::size_t> parts_of_updates(const Program& program) {
  std::map<const TensorImpl*, std::size_t> parts;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (!program.nodes[i].is_part) continue;
    for (const Tensor& leaf : program.nodes[i].leaves) parts[leaf.impl()] = i;
  }
  return parts;
}

}  // namespace

std::size_t first_of_last_host_work(const Program& program) {
  std::size_t first = program.nodes.size();
  while (first > 0 && program.nodes[first - 1].is_host()) --first;
  return first;
}

std::vector<PackedSlot> wanted_slots(const Program& program) {
  std::vector<PackedSlot> slots;
  std::map<std::pair<ValueId, ReadIn>, int> counts;
  const std::vector<std::size_t> all_makers = makers(program);
  const std::map<const TensorImpl*, std::size_t> parts = parts_of_updates(program);
  const std::size_t end = first_of_last_host_work(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const WeightReader* const reader = weight_reader(program.nodes[i]);
    if (reader == nullptr) continue;
    const ValueId weight = program.nodes[i].inputs[kWeightInput];
    const ValueId parameter = parameter_of(program, weight, all_makers[weight]);
    if (parameter == kNoValue || program.spec(parameter).dtype != DType::kF32) continue;
    ++counts[{parameter, reader->pass}];
    const auto part = parts.find(program.values[parameter].tensor.impl());
    slots.push_back({.reader = i,
                     .writer = part != parts.end() ? part->second : end,
                     .weight = weight,
                     .parameter = parameter,
                     .pass = reader->pass,
                     .bytes = program.spec(weight).bytes()});
  }
  std::erase_if(slots, [&](const PackedSlot& slot) {
    return counts[{slot.parameter, slot.pass}] > 1 || slot.writer == program.nodes.size();
  });
  return slots;
}

OfferSlots::OfferSlots(std::span<const PackedSlot> slots, const Program& program,
                       const Ref<Storage>& arena, std::size_t writer)
    : slots_(slots),
      program_(program),
      arena_(arena),
      writer_(writer),
      given_(slots.size(), false) {}

Ref<Storage> OfferSlots::place_for(const Tensor& param, ReadIn pass, std::size_t bytes) {
  const auto slot = std::ranges::find_if(slots_, [&](const PackedSlot& r) {
    return r.writer == writer_ && r.pass == pass &&
           program_.values[r.parameter].tensor.impl() == param.impl();
  });
  if (slot == slots_.end() || bytes > slot->bytes) return nullptr;
  const auto index = static_cast<std::size_t>(slot - slots_.begin());
  if (given_[index]) return nullptr;
  given_[index] = true;
  return make_ref<Storage>(static_cast<std::byte*>(arena_->data()) + slot->offset, bytes,
                           arena_->device(), Ref<RefCounted>(arena_.get()));
}

void clear_slot(const PackedSlot& slot, const Tensor& weight) {
  for (const Ref<PackedCopy>& copy : packed_copies_of(*weight.storage())) {
    if (copy->pass() == slot.pass) copy->let_go();
  }
}

}  // namespace mezzo::graph
