// A tile of scores, and what becomes of them: masks, dropout, exponentials. Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#endif

#include <limits>

#include "mezzo/kernels/cpu/attention/operand-inl.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/cpu/simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

using kernels::attention::Mask;
using kernels::attention::Problem;

inline constexpr float kInfinite = std::numeric_limits<float>::infinity();

// exp(x) for x up to 88: 0 below the smallest normal number. It takes less than two thirds of the
// instructions of exp(). A NaN stays.
HWY_INLINE F32Vec exp_up_to_88(F32Vec x) {
  const U32 u32;
  // Adding this rounds to whole numbers: the lowest bits of the sum are n + 127, the exponent of
  // 2^n.
  const auto shift = number(0x1.8p23F + 127);
  const auto shifted = hn::MulAdd(x, number(1.44269504F), shift);
  const auto n = hn::Sub(shifted, shift);
  const auto power = hn::BitCast(F32(), hn::ShiftLeft<23>(hn::BitCast(u32, shifted)));
  auto r = hn::NegMulAdd(n, number(kLn2High), x);
  r = hn::NegMulAdd(n, number(kLn2Low), r);
  const auto p = polynomial(r, number(0.0013814462974F), 0.00836878043121F, 0.0416683942795F,
                            0.166665201077F, 0.499999934123F);
  const auto e = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), number(1.0F));
  return hn::IfThenZeroElse(hn::Lt(x, number(-87.3F)), hn::Mul(e, power));
}

// Which queries meet which keys: a tile of one head.
struct TilePlace {
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;    // the first one
  std::int64_t queries = 0;  // at most kTileQueries
  std::int64_t key = 0;
  std::int64_t keys = 0;  // at most kTileKeys
};

// Neighbouring keys, and the first vector of queries of which one sees them.
struct Strip {
  std::int64_t begin = 0;  // of the tile's keys
  std::int64_t end = 0;
  std::int64_t vector = 0;

  std::int64_t keys() const { return end - begin; }
  std::int64_t column() const { return vector * lanes(); }
};

// What the keys and the first columns of strips are multiples of, and the columns of a tile: a
// multiple of lanes().
struct StripSize {
  std::int64_t keys = 16;
  std::int64_t columns = lanes();
};

// A tile of scores: rows are keys, columns are queries.
class ScoreTile {
 public:
  ScoreTile(const Problem& problem, const StripSize& strip, Room& room)
      : problem_(problem), strip_(strip) {
    if (!problem.attrs.drops()) return;
    factors_ = room.take(kTileKeys * kTilePitch);
    query_factors_ = room.take(kTileQueries * kTileKeys);
  }

  void set(const TilePlace& place) {
    place_ = place;
    vectors_ = round_up(place.queries, strip_.columns) / lanes();
    std::fill_n(rows_, vectors_, 0);
    for_strips(
        [&](const Strip& strip) { std::fill(rows_ + strip.vector, rows_ + vectors_, strip.end); });
    if (factors_ != nullptr) set_factors();
  }

  const TilePlace& place() const { return place_; }
  // The vectors of columns; the last columns may be those of no query.
  std::int64_t vectors() const { return vectors_; }
  // The rows of that vector of columns that are computed.
  std::int64_t rows(std::int64_t vector) const { return rows_[vector]; }
  // What dropout multiplies probabilities by; null without dropout.
  const float* factors() const { return factors_; }

  // Calls body(strip) for the strips of keys that queries see. Tiles on the diagonal of causal
  // attention have several, so that little is computed in vain.
  template <class Body>
  void for_strips(const Body& body) const {
    const std::int64_t last = problem_.first_seeing(place_.key + place_.keys - 1);
    if (last <= place_.query) return body(Strip{0, place_.keys, 0});
    for (std::int64_t j = 0; j < place_.keys; j += strip_.keys) {
      const std::int64_t first = problem_.first_seeing(place_.key + j) - place_.query;
      if (first >= place_.queries) return;
      const std::int64_t step = std::max<std::int64_t>(first, 0) / strip_.columns;
      body(Strip{j, std::min(j + strip_.keys, place_.keys), step * strip_.columns / lanes()});
    }
  }

  // Adds the mask, and makes scores of hidden keys -infinity.
  void hide(float* scores) const {
    for (std::int64_t v = 0; v < vectors_; ++v) {
      if (problem_.mask.tensor != nullptr) add_mask(scores, v);
      if (problem_.attrs.causal) hide_later(scores, v);
    }
  }

 private:
  void add_mask(float* scores, std::int64_t v) const {
    const Mask& mask = problem_.mask;
    const std::int64_t query = place_.query + v * lanes();
    const std::int64_t count = std::min(lanes(), place_.query + place_.queries - query);
    const std::int64_t first = place_.sample * mask.sample + place_.head * mask.head +
                               query * mask.query + place_.key * mask.key;
    alignas(64) float values[kMaxLanes] = {};
    float* to = scores + v * lanes();
    for (std::int64_t j = 0; j < rows_[v]; ++j, to += kTilePitch) {
      const std::int64_t at = first + j * mask.key;
      if (mask.query == 0) {
        std::fill_n(values, kMaxLanes, mask.at(at));
      } else {
        for (std::int64_t i = 0; i < count; ++i) values[i] = mask.at(at + i * mask.query);
      }
      const auto value = load(values);
      // A hidden score may be NaN.
      const auto is_hidden = hn::Eq(value, number(-kInfinite));
      store(hn::IfThenElse(is_hidden, value, hn::Add(load(to), value)), to);
    }
  }

  void hide_later(float* scores, std::int64_t v) const {
    const std::int64_t shift = problem_.sizes.keys - problem_.sizes.queries;
    // Row j is hidden from the columns before j - open.
    const std::int64_t open = place_.query + v * lanes() + shift - place_.key;
    const auto columns = hn::Iota(F32(), 0.0F);
    for (std::int64_t j = std::max<std::int64_t>(open + 1, 0); j < rows_[v]; ++j) {
      float* const to = scores + j * kTilePitch + v * lanes();
      const auto is_hidden = hn::Lt(columns, number(static_cast<float>(j - open)));
      store(hn::IfThenElse(is_hidden, number(-kInfinite), load(to)), to);
    }
  }

  // Words lie query by query, so factors are made in rows of queries and transposed.
  void set_factors() {
    const std::int64_t width = round_up(place_.keys, kRowMultiple);
    const std::int64_t count = round_up(vectors_ * lanes(), kRowMultiple);
    for (std::int64_t i = 0; i < place_.queries; ++i) set_query_factors(i);
    std::fill(query_factors_ + place_.queries * kTileKeys, query_factors_ + count * kTileKeys,
              0.0F);
    for (std::int64_t i = 0; i < count; i += kRowMultiple) {
      for (std::int64_t j = 0; j < width; j += kRowMultiple) {
        transpose_square<kRowMultiple, kTilePitch>(query_factors_ + i * kTileKeys + j, kTileKeys,
                                                   factors_ + j * kTilePitch + i);
      }
    }
  }

  void set_query_factors(std::int64_t i) {
    const hn::RebindToSigned<F32> i32;
    const U32 u32;
    const std::uint64_t word = problem_.place.offset +
                               problem_.sizes.word(place_.sample, place_.head, place_.query + i) +
                               static_cast<std::uint64_t>(place_.key);
    const auto threshold = static_cast<std::int32_t>(problem_.attrs.as_dropout().threshold());
    const auto kept = number(static_cast<float>(1 / (1 - problem_.attrs.dropout)));
    alignas(64) std::uint32_t words[std::max(kTileKeys, kPhiloxWords)];
    for (std::int64_t j = 0; j < place_.keys; j += 4 * lanes()) {
      philox_words(problem_.place, (word + static_cast<std::uint64_t>(j)) / 4, words + j);
    }
    float* const to = query_factors_ + i * kTileKeys;
    for (std::int64_t j = 0; j < place_.keys; j += lanes()) {
      const auto unit = hn::BitCast(i32, hn::ShiftRight<8>(hn::LoadU(u32, words + j)));
      const auto keep = hn::RebindMask(F32(), hn::Gt(unit, hn::Set(i32, threshold - 1)));
      store(hn::IfThenElseZero(keep, kept), to + j);
    }
  }

  const Problem& problem_;
  StripSize strip_;
  TilePlace place_;
  std::int64_t vectors_ = 0;
  std::int64_t rows_[kTileQueries] = {};  // per vector of columns
  float* factors_ = nullptr;              // [kTileKeys][kTilePitch]
  float* query_factors_ = nullptr;        // [kTileQueries][kTileKeys]
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
