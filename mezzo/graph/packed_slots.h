// Slots in a program's arena for the weights that its update packs for the next run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/graph/program.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::graph {

// A place for a weight in a layout of a kernel's own, which the update of a run writes and one call
// of the next run reads: between them lie the end of a run and the beginning of another, where the
// arena is emptiest.
struct PackedSlot {
  std::size_t reader = 0;  // the node
  std::size_t writer = 0;  // the update's part, or the first host work behind all calls
  ValueId weight = kNoValue;
  ValueId parameter = kNoValue;  // the state that it is, or is a copy of
  ReadIn pass = ReadIn::kForward;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the arena
};

// The first of the nodes behind all calls; how many nodes there are if the last one is a call.
std::size_t first_of_last_host_work(const Program& program);

// Those that a program could use, still without a place: weights of convolutions that one call of
// each pass reads, and that something writes.
std::vector<PackedSlot> wanted_slots(const Program& program);

// Offers the slots that `writer` writes to an update, each once: kernels may have read a weight in
// two layouts.
class OfferSlots final : public PackedPlaces {
 public:
  OfferSlots(std::span<const PackedSlot> slots, const Program& program, const Ref<Storage>& arena,
             std::size_t writer);
  Ref<Storage> place_for(const Tensor& param, ReadIn pass, std::size_t bytes) override;

 private:
  std::span<const PackedSlot> slots_;
  const Program& program_;
  const Ref<Storage>& arena_;
  std::size_t writer_;
  std::vector<bool> given_;
  OfferPlaces offer_{*this};
};

// Gives up what lies in the slot, read or not: what the arena holds next is going to be written.
void clear_slot(const PackedSlot& slot, const Tensor& weight);

}  // namespace mezzo::graph
