// Colours: how the nodes of a program stand to 16 bits, and along which edges that says something
// about their neighbours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/graph/passes/cast_plan.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The names are those of OneFlow's AutoMixedPrecision pass; TF grappler's are allow, deny, infer,
// clear.
enum class Colour : std::uint8_t {
  kNone,   // takes what comes, and what comes is not changed for its sake
  kWhite,  // computes in 16 bits
  kBlack,  // computes in f32
  kGray,   // undecided, and loses a little in 16 bits
  kClear,  // undecided, and indifferent
};

struct Mark {
  Colour colour = Colour::kNone;
  DType lower = DType::kBf16;  // of the region that the node is in
  std::string reason{};

  bool is_undecided() const { return colour == Colour::kGray || colour == Colour::kClear; }
};

// What the node's own region says of it, before its neighbours are looked at. A node is without
// colour
//  - outside of regions and at level O0, where nothing is cast: if its input has 16 bits, so be it;
//  - if no input may be cast: the operation's cast mask is empty (`cast` among them: it was asked
//    for), or there is no input in f32 or 16 bits;
//  - if its region leaves it alone on purpose: a rule of the user says `follow`, or the level is
//    another one than `auto`, and those leave nothing to be decided.
// Throws what autocast throws if the operation is refused.
Mark mark_of(const Program& program, const Node& node);

// The neighbours of a node in the sense of painting: an edge is there if the value's dtype is
// decided by the paint of its maker, and the reader may cast it and has a colour for the same lower
// dtype. Black makers have edges for all their results.
struct Neighbours {
  std::vector<std::size_t> readers{};
  std::vector<std::size_t> makers{};
  // Somebody else reads such a value, and shall get what autocast would give.
  bool read_without_edge = false;
  bool returned = false;
  bool unread = false;
};

// By node. An undecided node loses its colour if the operation does not take 16 bits, for instance
// beside an input in f64.
std::vector<Neighbours> neighbours_of(const Program& program, CastPlanner& planner,
                                      std::vector<Mark>& marks);

}  // namespace mezzo::graph
