// Rooms in a program's arena for the weights that its update packs for the next run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/graph/program.h"
#include "mezzo/ops/packed_copy.h"

namespace mezzo::graph {

// Room for a weight in a layout of a kernel's own, which the host work in the end of a run writes
// and one call of the next run reads. Between them lie the beginning of a run and its end, where
// the arena is all but empty.
struct PackedRoom {
  std::size_t reader = 0;  // the node
  ValueId weight = kNoValue;
  ValueId parameter = kNoValue;  // the state that it is, or is a copy of
  ReadIn pass = ReadIn::kForward;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the arena
};

// The first of the nodes behind all calls; how many nodes there are if the last one is a call.
std::size_t first_of_last_host_work(const Program& program);

// Those that a program could use, still without a place: weights of convolutions that one call of
// each pass reads.
std::vector<PackedRoom> rooms_wanted(const Program& program);

// Offers the rooms to an update, each once: kernels may have read a weight in two layouts.
class OfferRooms final : public PackedPlaces {
 public:
  OfferRooms(std::span<const PackedRoom> rooms, const Program& program, const Ref<Storage>& arena);
  Ref<Storage> place_for(const Tensor& param, ReadIn pass, std::size_t bytes) override;

 private:
  std::span<const PackedRoom> rooms_;
  const Program& program_;
  const Ref<Storage>& arena_;
  std::vector<bool> given_;
  OfferPlaces offer_{*this};
};

// Gives up what lies in the room, read or not: what the arena holds next is going to be written.
void clear_room(const PackedRoom& room, const Tensor& weight);

}  // namespace mezzo::graph
