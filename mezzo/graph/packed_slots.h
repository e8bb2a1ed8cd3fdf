// Slots in a program's arena for the weights that its update packs for the next run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/graph/program.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::graph {

// Memory for a weight in a kernel's own layout, which the update of a run writes and one call of
// the next run reads. In between are the end of a run and the beginning of the next, where the
// arena is emptiest.
struct PackedSlot {
  std::size_t reader = 0;  // the node that reads it
  std::size_t writer = 0;  // the part of the update, or the first host work after all calls
  ValueId weight = kNoValue;
  ValueId parameter = kNoValue;  // the state that the weight is, or is a copy of
  ReadIn pass = ReadIn::kForward;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the arena
};

// The first of the nodes after all calls; the number of nodes if the last one is a call.
std::size_t first_of_last_host_work(const Program& program);

// The slots that a program could use, without offsets: for weights of convolutions that one call of
// each pass reads, and that something writes.
std::vector<PackedSlot> wanted_slots(const Program& program);

// Offers the slots that `writer` writes to an update, each once, because kernels may read a weight
// in two layouts.
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

// Frees the contents of the slot, read or not, because the arena will be overwritten there.
void clear_slot(const PackedSlot& slot, const Tensor& weight);

}  // namespace mezzo::graph
