// The attributes of rotary position embedding, for its definition and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/rope.h"

namespace mezzo {

inline void append_text(std::string& out, RopePairing pairing) {
  out += pairing == RopePairing::kHalves ? "halves" : "neighbours";
}
inline bool parse_text(std::string_view text, RopePairing& pairing) {
  return parse_one_of(text, pairing, {RopePairing::kHalves, RopePairing::kNeighbours});
}

struct RopeAttrs {
  std::int64_t axis = 0;  // of the sequence; normalised
  double theta = 10000;
  std::int64_t offset = 0;
  RopePairing pairing = RopePairing::kHalves;
  bool inverse = false;  // rotates back: the gradient
  static constexpr auto kFields =
      std::tuple(Field{"axis", &RopeAttrs::axis}, Field{"theta", &RopeAttrs::theta},
                 Field{"offset", &RopeAttrs::offset}, Field{"pairing", &RopeAttrs::pairing},
                 Field{"inverse", &RopeAttrs::inverse});
  bool operator==(const RopeAttrs&) const = default;
};

// The rows of x, and how they are numbered.
struct RopeRows {
  std::int64_t pairs = 0;      // in a row
  std::int64_t count = 0;      // of rows
  std::int64_t length = 0;     // of the sequence
  std::int64_t inner = 1;      // rows in a row with the same position
  std::int64_t per_batch = 0;  // rows of one example, where each has its own positions; else 0

  // The number, in the list of positions, of the position of a row.
  constexpr std::int64_t position_of(std::int64_t row) const {
    const std::int64_t example = per_batch > 0 ? row / per_batch : 0;
    return example * length + row / inner % length;
  }
};

inline RopeRows rope_rows(const Shape& x, std::int64_t axis, bool own_positions) {
  RopeRows rows;
  rows.pairs = x.back() / 2;
  rows.count = 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) {
    rows.count *= x[i];
    if (static_cast<std::int64_t>(i) > axis) rows.inner *= x[i];
  }
  rows.length = x[static_cast<std::size_t>(axis)];
  rows.per_batch = own_positions && x[0] > 0 ? rows.count / x[0] : 0;
  return rows;
}

}  // namespace mezzo
