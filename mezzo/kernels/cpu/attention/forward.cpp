#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/attention/forward.cpp"
#include "mezzo/kernels/cpu/attention/forward.h"

#include <hwy/foreach_target.h>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/attention/key_operand-inl.h"
#include "mezzo/kernels/cpu/attention/query_operand-inl.h"
#include "mezzo/kernels/cpu/attention/rounded_tile-inl.h"
#include "mezzo/kernels/cpu/attention/scores-inl.h"
#include "mezzo/kernels/cpu/attention/work.h"
#include "mezzo/kernels/cpu/attention/write-inl.h"
#include "mezzo/kernels/cpu/loops/layout.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {
namespace {

// What a thread needs to compute rows of tiles.
template <class T, class Products>
class ForwardWorker {
 public:
  ForwardWorker(const Problem& problem, const KernelArgs& args, const Products& products,
                Room& room)
      : problem_(problem),
        products_(products),
        out_(args.output(0)),
        lse_(args.output(1)),
        q_(problem.sizes.features, false, room),
        k_(problem.sizes.features, KeyForm::kRows, room),
        v_(problem.sizes.values, KeyForm::kColumns, room),
        tile_(problem, {Products::kStripKeys, lanes()}, room),
        scores_(room.take(kTileKeys * kTilePitch)),
        result_(room.take(padded_width(problem.sizes.values) * kTilePitch)) {
    if (kPaired) pairs_ = room.take(kRoundedTile);
  }

  void run(std::int64_t sample, std::int64_t head, std::int64_t query_tile) {
    const AttentionSizes& sizes = problem_.sizes;
    const std::int64_t query = query_tile * kTileQueries;
    const std::int64_t queries = std::min(kTileQueries, sizes.queries - query);
    const std::int64_t keys = problem_.seen_before(query + queries);
    q_.set(problem_.q.at<T>(sample, query, head), problem_.q.position, queries);
    std::fill_n(highest_, kTileQueries, -kInfinite);
    std::fill_n(sums_, kTileQueries, 0.0F);
    if (keys == 0) std::fill_n(result_, padded_width(sizes.values) * kTilePitch, 0.0F);
    for (std::int64_t key = 0; key < keys; key += kTileKeys) {
      tile_.set({sample, head, query, queries, key, std::min(kTileKeys, keys - key)});
      add_tile();
    }
    finish(sample, head, query, queries);
  }

 private:
  static constexpr bool kPaired = Products::kPaired;

  void add_tile() {
    const TilePlace& place = tile_.place();
    const std::int64_t key_head = place.head / problem_.sizes.group();
    k_.set(problem_.k.at<T>(place.sample, place.key, key_head), problem_.k.position, place.keys);
    v_.set(problem_.v.at<T>(place.sample, place.key, key_head), problem_.v.position, place.keys);
    tile_.for_strips([&](const Strip& strip) {
      products_.multiply({.a = k_.rows().from(strip.begin, 0),
                          .b = q_.columns() + strip.column(),
                          .b_row = kTilePitch,
                          .sums = scores_ + strip.begin * kTilePitch + strip.column(),
                          .sums_row = kTilePitch,
                          .rows = strip.keys(),
                          .terms = k_.row_terms(),
                          .vectors = tile_.vectors() - strip.vector,
                          .scale = static_cast<float>(problem_.attrs.scale)});
    });
    tile_.hide(scores_);
    for (std::int64_t v = 0; v < tile_.vectors(); ++v) to_probabilities(v);
    if constexpr (kPaired) pair_keys<Products>(tile_, scores_, pairs_);
    add_values();
  }

  // Replaces scores of a vector of queries by probabilities times the sum so far.
  void to_probabilities(std::int64_t v) {
    const std::int64_t column = v * lanes();
    const std::int64_t rows = tile_.rows(v);
    float* const scores = scores_ + column;
    const auto before = load(highest_ + column);
    const auto highest = hn::Max(before, highest_of(scores, rows));
    // Queries that have seen no key yet have no finite maximum to subtract.
    const auto nothing = hn::Eq(highest, number(-kInfinite));
    const auto subtracted = hn::IfThenElse(nothing, hn::Zero(F32()), highest);
    const auto keep = exp_up_to_88(hn::Sub(before, subtracted));
    auto sum = hn::Mul(load(sums_ + column), keep);
    for (std::int64_t j = 0; j < rows; ++j) {
      float* const at = scores + j * kTilePitch;
      const auto p = exp_up_to_88(hn::Sub(load(at), subtracted));
      sum = hn::Add(sum, p);
      store(p, at);
    }
    store(highest, highest_ + column);
    store(sum, sums_ + column);
    store(keep, keep_ + column);
    if (tile_.factors() == nullptr) return;
    for (std::int64_t j = 0; j < rows; ++j) {
      float* const at = scores + j * kTilePitch;
      store(hn::Mul(load(at), load(tile_.factors() + column + j * kTilePitch)), at);
    }
  }

  // The highest of each column. Four maxima at a time hide the latency of one.
  static F32Vec highest_of(const float* column, std::int64_t rows) {
    F32Vec parts[4];
    for (F32Vec& part : parts) part = number(-kInfinite);
    std::int64_t j = 0;
    for (; j + 4 <= rows; j += 4, column += 4 * kTilePitch) {
      for (int k = 0; k < 4; ++k) parts[k] = hn::Max(parts[k], load(column + k * kTilePitch));
    }
    for (; j < rows; ++j, column += kTilePitch) parts[0] = hn::Max(parts[0], load(column));
    return hn::Max(hn::Max(parts[0], parts[1]), hn::Max(parts[2], parts[3]));
  }

  void add_values() {
    const bool is_first = tile_.place().key == 0;
    tile_.for_strips([&](const Strip& strip) {
      const std::int64_t begin = kPaired ? strip.begin / 2 : strip.begin;
      const bool adds = !is_first || strip.begin > 0;
      products_.multiply(
          {.a = v_.columns().from(0, begin),
           .b = (kPaired ? pairs_ : scores_) + begin * kTilePitch + strip.column(),
           .b_row = kTilePitch,
           .sums = result_ + strip.column(),
           .sums_row = kTilePitch,
           .rows = problem_.sizes.values,
           .terms = numbers_of<Products>(strip.keys()),
           .vectors = tile_.vectors() - strip.vector,
           .adds = adds,
           // Queries that see the first strip see the others, or have no later ones.
           .keep = !is_first && strip.begin == 0 ? keep_ + strip.column() : nullptr});
    });
  }

  void finish(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t queries) {
    const AttentionSizes& sizes = problem_.sizes;
    const std::int64_t row = (sample * sizes.heads + head) * sizes.queries + query;
    float* const lse = lse_.mutable_data<float>() + row;
    for_row(queries, [&](std::int64_t i, auto part) HWY_ATTR {
      const auto sum = load(sums_ + i);
      // A query that sees no key: 0, and exp(score - lse) is 0 in the gradient.
      const auto nothing = hn::Eq(sum, hn::Zero(F32()));
      const auto factor = hn::IfThenZeroElse(nothing, hn::Div(number(1.0F), sum));
      const auto total = hn::Add(load(highest_ + i), log(sum));
      store(hn::IfThenElse(nothing, number(kInfinite), total), lse + i, part);
      for (std::int64_t c = 0; c < sizes.values; ++c) {
        float* const at = result_ + c * kTilePitch + i;
        store(hn::Mul(load(at), factor), at);
      }
    });
    T* const to = out_.mutable_data<T>() +
                  ((sample * sizes.queries + query) * sizes.heads + head) * sizes.values;
    write_columns<T>(result_, 1, {to, sizes.heads * sizes.values, queries, sizes.values});
  }

  const Problem& problem_;
  const Products& products_;
  const Tensor& out_;
  const Tensor& lse_;
  QueryOperand<T, Products> q_;
  KeyOperand<T, Products> k_;
  KeyOperand<T, Products> v_;
  ScoreTile tile_;
  float* scores_;           // [kTileKeys][kTilePitch]
  float* pairs_ = nullptr;  // [kTileKeys / 2][kTilePitch]
  float* result_;           // [values][kTilePitch]: result so far, times the sum so far
  alignas(64) float highest_[kTileQueries];  // score of each query so far
  alignas(64) float sums_[kTileQueries];     // of exp(score - highest)
  alignas(64) float keep_[kTileQueries];     // what earlier sums are multiplied by
};

template <class T, class Products>
void forward_of(const KernelArgs& args, const Products& products) {
  using Worker = ForwardWorker<T, Products>;
  const Problem problem(args, AttentionInput::kQ, AttentionInput::kStart);
  const AttentionSizes& sizes = problem.sizes;
  const std::int64_t tiles = problem.query_tiles();
  const std::int64_t units = sizes.batch * sizes.heads * tiles;
  if (units == 0) return;
  Room counted;
  Worker(problem, args, products, counted);
  const double work = static_cast<double>(sizes.batch * sizes.heads) *
                      static_cast<double>(sizes.features + sizes.values) *
                      sizes.scores(problem.attrs.causal);
  const std::int64_t grain = kernels::attention::grain_of(units, work);
  parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
    [[maybe_unused]] const auto registers = products.registers();
    const Tensor memory = scratch({counted.used()}, DType::kF32);
    Room room(memory.mutable_data<float>());
    Worker worker(problem, args, products, room);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / tiles;
      worker.run(head / sizes.heads, head % sizes.heads,
                 kernels::attention::from_both_ends(i % tiles, tiles));
    }
  });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE::attention_tiles

namespace mezzo::HWY_NAMESPACE {

void attention_forward(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
    attention_tiles::forward_of<T>(args, attention_tiles::F32Products());
  });
}

void attention_forward_dots(const KernelArgs& args) {
  if constexpr (attention_tiles::kMayHaveDots) {
    attention_tiles::forward_of<BFloat16>(args, attention_tiles::DotProducts());
  } else {
    attention_forward(args);
  }
}

void attention_forward_tiles(const KernelArgs& args, const kernels::attention::TileUnit& unit) {
  if constexpr (attention_tiles::kMayHaveTiles) {
    attention_tiles::forward_of<BFloat16>(args, attention_tiles::TileProducts{unit});
  } else {
    attention_forward(args);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::attention {

HWY_EXPORT(attention_forward);
HWY_EXPORT(attention_forward_dots);
HWY_EXPORT(attention_forward_tiles);

void run_forward(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_forward)(args); }

void run_forward_dots(const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_forward_dots)(args);
}

void run_forward_tiles(const KernelArgs& args) { run_forward_on(tile_unit(), args); }

void run_forward_on(const TileUnit& unit, const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_forward_tiles)(args, unit);
}

}  // namespace mezzo::kernels::attention
#endif
