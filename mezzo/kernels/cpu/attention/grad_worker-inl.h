// The gradients that one thread adds up, tile by tile (grad.h). Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_GRAD_WORKER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_GRAD_WORKER_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_GRAD_WORKER_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_GRAD_WORKER_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/grad_unit.h"
#include "mezzo/kernels/cpu/attention/key_operand-inl.h"
#include "mezzo/kernels/cpu/attention/query_operand-inl.h"
#include "mezzo/kernels/cpu/attention/query_sums-inl.h"
#include "mezzo/kernels/cpu/attention/rounded_tile-inl.h"
#include "mezzo/kernels/cpu/attention/scores-inl.h"
#include "mezzo/kernels/cpu/attention/write-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

using kernels::attention::Gradients;
using kernels::attention::GradUnit;

// Adds the terms of a unit of tiles.
template <class T, class Products>
class GradWorker {
 public:
  // `key_tiles`: the most of a unit.
  GradWorker(const Problem& problem, const GradTensors& tensors, const Products& products,
             Gradients what, std::int64_t key_tiles, Room& room)
      : problem_(problem),
        tensors_(tensors),
        products_(products),
        what_(what),
        q_(problem.sizes.features, wants_keys(), room),
        grad_(problem.sizes.values, wants_keys(), room),
        k_(problem.sizes.features, wants_queries() ? KeyForm::kBoth : KeyForm::kRows, room),
        v_(problem.sizes.values, KeyForm::kRows, room),
        tile_(problem, {Products::kStripKeys, strip_columns()}, room),
        probabilities_(room.take(kTileKeys * kTilePitch)),
        grad_scores_(room.take(kTileKeys * kTilePitch)) {
    if (wants_queries()) grad_q_ = room.take(padded_width(problem.sizes.features) * kTilePitch);
    if (wants_keys()) {
      grad_k_ = room.take(key_tiles * kTileKeys * q_.width());
      grad_v_ = room.take(key_tiles * kTileKeys * grad_.width());
    }
    if (kPaired) {
      pairs_ = room.take(kRoundedTile);
      rounded_ = room.take(kRoundedTile);
    }
  }

  void run(const GradUnit& unit) {
    unit_ = unit;
    if (wants_keys()) {
      std::fill_n(grad_k_, unit.key_tiles * kTileKeys * q_.width(), 0.0F);
      std::fill_n(grad_v_, unit.key_tiles * kTileKeys * grad_.width(), 0.0F);
    }
    for (std::int64_t h = 0; h < unit.heads; ++h) {
      for (std::int64_t i = 0; i < unit.query_tiles; ++i) {
        run_queries(unit.head + h, (unit.query_tile + i) * kTileQueries);
      }
    }
    if (wants_keys()) write_keys();
  }

 private:
  static constexpr bool kPaired = Products::kPaired;
  // Queries are terms, too: a strip begins with whole tiles of them.
  static std::int64_t strip_columns() {
    return std::max(lanes(), (kPaired ? 2 : 1) * Products::kTermStep);
  }

  bool wants_queries() const { return what_ != Gradients::kKeys; }
  bool wants_keys() const { return what_ != Gradients::kQueries; }

  void run_queries(std::int64_t head, std::int64_t query) {
    const AttentionSizes& sizes = problem_.sizes;
    const std::int64_t queries = std::min(kTileQueries, sizes.queries - query);
    const std::int64_t seen = problem_.seen_before(query + queries);
    const std::int64_t first = unit_.key_tile * kTileKeys;
    const std::int64_t keys = std::min(seen, first + unit_.key_tiles * kTileKeys);
    if (wants_queries()) {
      std::fill_n(grad_q_, padded_width(sizes.features) * kTilePitch, 0.0F);
    }
    if (first < keys) set_queries(head, query, queries);
    for (std::int64_t key = first; key < keys; key += kTileKeys) {
      tile_.set({unit_.sample, head, query, queries, key, std::min(kTileKeys, keys - key)});
      add_tile();
    }
    if (wants_queries()) write_queries(head, query, queries);
  }

  void set_queries(std::int64_t head, std::int64_t query, std::int64_t queries) {
    q_.set(problem_.q.at<T>(unit_.sample, query, head), problem_.q.position, queries);
    const T* const grad = tensors_.grad.at<T>(unit_.sample, query, head);
    grad_.set(grad, tensors_.grad.position, queries);
    query_sums_.set(tensors_, {unit_.sample, head, query, queries, 0, 0}, problem_.sizes);
  }

  void add_tile() {
    const TilePlace& place = tile_.place();
    const std::int64_t key_head = place.head / problem_.sizes.group();
    k_.set(problem_.k.at<T>(place.sample, place.key, key_head), problem_.k.position, place.keys);
    v_.set(problem_.v.at<T>(place.sample, place.key, key_head), problem_.v.position, place.keys);
    tile_.for_strips([&](const Strip& strip) {
      multiply_rows(k_, q_, strip, static_cast<float>(problem_.attrs.scale), probabilities_);
      multiply_rows(v_, grad_, strip, 1, grad_scores_);
    });
    tile_.hide(probabilities_);
    for (std::int64_t v = 0; v < tile_.vectors(); ++v) to_grad_scores(v);
    if (wants_queries()) add_to_queries();
    if (wants_keys()) {
      const std::int64_t key = place.key - unit_.key_tile * kTileKeys;
      add_to_keys(probabilities_, grad_, grad_v_ + key * grad_.width());
      add_to_keys(grad_scores_, q_, grad_k_ + key * q_.width());
    }
  }

  // A strip of the products of all keys with all queries.
  void multiply_rows(const KeyOperand<T, Products>& keys, const QueryOperand<T, Products>& queries,
                     const Strip& strip, float scale, float* sums) const {
    products_.multiply({.a = keys.rows().from(strip.begin, 0),
                        .b = queries.columns() + strip.column(),
                        .b_row = kTilePitch,
                        .sums = sums + strip.begin * kTilePitch + strip.column(),
                        .sums_row = kTilePitch,
                        .rows = strip.keys(),
                        .terms = keys.row_terms(),
                        .vectors = tile_.vectors() - strip.vector,
                        .scale = scale});
  }

  // Replaces scores by probabilities, and gradients of probabilities by those of scores, for a
  // vector of queries.
  void to_grad_scores(std::int64_t v) {
    const std::int64_t column = v * lanes();
    const auto lse = load(query_sums_.lse + column);
    const auto mean = load(query_sums_.mean + column);
    const float* const factors = tile_.factors();
    float* p_at = probabilities_ + column;
    float* grad_at = grad_scores_ + column;
    for (std::int64_t j = 0; j < tile_.rows(v); ++j, p_at += kTilePitch, grad_at += kTilePitch) {
      const auto p = exp_up_to_88(hn::Sub(load(p_at), lse));
      auto grad = load(grad_at);
      auto kept = p;
      if (factors != nullptr) {
        const auto factor = load(factors + column + j * kTilePitch);
        grad = hn::Mul(grad, factor);
        kept = hn::Mul(p, factor);
      }
      store(hn::Mul(p, hn::Sub(grad, mean)), grad_at);
      store(kept, p_at);
    }
  }

  // grad_q_ [features][queries] += K^T dS^T.
  void add_to_queries() {
    const float* terms = grad_scores_;
    if constexpr (kPaired) {
      pair_keys<Products>(tile_, grad_scores_, pairs_);
      terms = pairs_;
    }
    tile_.for_strips([&](const Strip& strip) {
      const std::int64_t begin = kPaired ? strip.begin / 2 : strip.begin;
      products_.multiply({.a = k_.columns().from(0, begin),
                          .b = terms + begin * kTilePitch + strip.column(),
                          .b_row = kTilePitch,
                          .sums = grad_q_ + strip.column(),
                          .sums_row = kTilePitch,
                          .rows = problem_.sizes.features,
                          .terms = numbers_of<Products>(strip.keys()),
                          .vectors = tile_.vectors() - strip.vector,
                          .adds = true});
    });
  }

  // sums [keys][features] += a tile [keys][queries] times rows of queries.
  void add_to_keys(const float* tile, const QueryOperand<T, Products>& queries, float* sums) {
    Numbers a{tile, kTilePitch * std::int64_t{sizeof(float)}, sizeof(float)};
    if constexpr (kPaired) {
      auto* const rounded = reinterpret_cast<BFloat16*>(rounded_);
      round_rows<Products>(tile_, tile, rounded);
      a = {rounded, kTilePitch * std::int64_t{sizeof(BFloat16)}, sizeof(float)};
    }
    tile_.for_strips([&](const Strip& strip) {
      const std::int64_t first = kPaired ? strip.column() / 2 : strip.column();
      const std::int64_t count = tile_.place().queries - strip.column();
      products_.multiply({.a = a.from(strip.begin, first),
                          .b = queries.rows() + first * queries.width(),
                          .b_row = queries.width(),
                          .sums = sums + strip.begin * queries.width(),
                          .sums_row = queries.width(),
                          .rows = strip.keys(),
                          .terms = numbers_of<Products>(count),
                          .vectors = queries.vectors(),
                          .adds = true});
    });
  }

  void write_queries(std::int64_t head, std::int64_t query, std::int64_t queries) const {
    const AttentionSizes& s = problem_.sizes;
    T* const to = tensors_.grad_q.template mutable_data<T>() +
                  ((unit_.sample * s.queries + query) * s.heads + head) * s.features;
    write_columns<T>(grad_q_, static_cast<float>(problem_.attrs.scale),
                     {to, s.heads * s.features, queries, s.features});
  }

  void write_keys() const {
    const AttentionSizes& s = problem_.sizes;
    const std::int64_t first = unit_.key_tile * kTileKeys;
    const std::int64_t keys = std::min(unit_.key_tiles * kTileKeys, s.keys - first);
    if (keys <= 0) return;
    const std::int64_t key_head = unit_.head / s.group();
    const auto write = [&](const float* sums, std::int64_t width, float scale, const Tensor& grad) {
      const std::int64_t n = grad.shape()[3];
      T* const to =
          grad.mutable_data<T>() + ((unit_.sample * s.keys + first) * s.key_heads + key_head) * n;
      write_rows<T>(sums, width, scale, {to, s.key_heads * n, keys, n});
    };
    write(grad_k_, q_.width(), static_cast<float>(problem_.attrs.scale), tensors_.grad_k);
    write(grad_v_, grad_.width(), 1, tensors_.grad_v);
  }

  const Problem& problem_;
  const GradTensors& tensors_;
  const Products& products_;
  Gradients what_;
  GradUnit unit_;
  QueryOperand<T, Products> q_;
  QueryOperand<T, Products> grad_;
  KeyOperand<T, Products> k_;
  KeyOperand<T, Products> v_;
  QuerySums<T> query_sums_;
  ScoreTile tile_;
  float* probabilities_;      // [kTileKeys][kTilePitch], first scores
  float* grad_scores_;        // the same shape, first gradients of probabilities
  float* grad_q_ = nullptr;   // [features][kTilePitch]
  float* grad_k_ = nullptr;   // [keys][q_.width()]
  float* grad_v_ = nullptr;   // [keys][grad_.width()]
  float* pairs_ = nullptr;    // [kTileKeys / 2][kTilePitch]
  float* rounded_ = nullptr;  // bf16 [kTileKeys][kTilePitch]
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
