// Colours classify the nodes of a program by how they relate to 16 bits, and determine along which
// edges this affects neighbours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/graph/passes/cast_plan.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The names are those of OneFlow's AutoMixedPrecision pass; in TF grappler they are allow, deny,
// infer and clear.
enum class Colour : std::uint8_t {
  kNone,   // takes any dtype, and its inputs are not changed for its sake
  kWhite,  // computes in 16 bits
  kBlack,  // computes in f32
  kGray,   // undecided, and loses some accuracy in 16 bits
  kClear,  // undecided, and indifferent
};

struct Mark {
  Colour colour = Colour::kNone;
  DType lower = DType::kBf16;  // of the node's region
  std::string reason{};

  bool is_undecided() const { return colour == Colour::kGray || colour == Colour::kClear; }
};

// The colour of a node by its own region, before its neighbours are considered. A node has no
// colour
//  - outside of regions and at level O0, where nothing is cast, even if its input has 16 bits;
//  - if no input may be cast: the operation's cast mask is empty (as for `cast`, which is a request
//    of its own), or there is no input in f32 or 16 bits;
//  - if its region leaves it alone on purpose: a user's rule says `follow`, or the level is not
//    `auto`, since other levels leave nothing undecided.
// Throws what autocast throws if the operation is refused.
Mark mark_of(const Program& program, const Node& node);

// The neighbours of a node for painting. There is an edge if the paint of a value's maker decides
// the value's dtype, and the reader may cast it and has a colour for the same lower dtype. Black
// makers have edges for all their results.
struct Neighbours {
  std::vector<std::size_t> readers{};
  std::vector<std::size_t> makers{};
  // Somebody else reads such a value, and must get the dtype that autocast would give.
  bool read_without_edge = false;
  bool returned = false;
  bool unread = false;
};

// The neighbours by node. An undecided node loses its colour if the operation does not accept 16
// bits, for example together with an f64 input.
std::vector<Neighbours> neighbours_of(const Program& program, CastPlanner& planner,
                                      std::vector<Mark>& marks);

}  // namespace mezzo::graph
