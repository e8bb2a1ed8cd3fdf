#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/attention/grad.cpp"
#include "mezzo/kernels/cpu/attention/grad.h"

#include <hwy/foreach_target.h>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/attention/scores-inl.h"
#include "mezzo/kernels/cpu/attention/work.h"
#include "mezzo/kernels/cpu/loops/layout.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {
namespace {

using AttentionGradIn = AttentionGradInput;

// Tiles of one sample whose terms a thread adds: ranges of query heads, which share a head of keys,
// of tiles of queries, and of tiles of keys.
struct GradUnit {
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t heads = 1;
  std::int64_t query_tile = 0;
  std::int64_t query_tiles = 1;
  std::int64_t key_tile = 0;
  std::int64_t key_tiles = 1;
};

// What is computed: a gradient is complete if the unit has all tiles that it is a sum over.
enum class Gradients : std::uint8_t { kAll, kQueries, kKeys };

struct GradTensors {
  kernels::attention::Rows grad;
  kernels::attention::Rows result;
  Tensor lse;
  Tensor grad_q;
  Tensor grad_k;
  Tensor grad_v;

  explicit GradTensors(const KernelArgs& args)
      : grad(args.input(AttentionGradIn::kGrad)),
        result(args.input(AttentionGradIn::kResult)),
        lse(kernels::dense(args.input(AttentionGradIn::kLse), Format::kContiguous)),
        grad_q(args.output(0)),
        grad_k(args.output(1)),
        grad_v(args.output(2)) {}
};

template <class T, bool kPaired>
class GradWorker {
 public:
  // `key_tiles`: the most of a unit.
  GradWorker(const Problem& problem, const GradTensors& tensors, Gradients what,
             std::int64_t key_tiles, Room& room)
      : problem_(problem),
        tensors_(tensors),
        what_(what),
        q_(problem.sizes.features, wants_keys(), room),
        grad_(problem.sizes.values, wants_keys(), room),
        k_(problem.sizes.features, room),
        v_(problem.sizes.values, room),
        tile_(problem, room),
        probabilities_(room.take(kTileKeys * kTilePitch)),
        grad_scores_(room.take(kTileKeys * kTilePitch)) {
    if (wants_queries()) grad_q_ = room.take(padded_width(problem.sizes.features) * kTilePitch);
    if (wants_keys()) {
      grad_k_ = room.take(key_tiles * kTileKeys * q_.width());
      grad_v_ = room.take(key_tiles * kTileKeys * grad_.width());
    }
    if (kPaired) {
      pairs_ = room.take(kTileKeys / 2 * kTilePitch);
      narrow_ = room.take(kTileKeys * kTilePitch);
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
    const AttentionSizes& sizes = problem_.sizes;
    q_.set(problem_.q.at<T>(unit_.sample, query, head), problem_.q.position, queries);
    const T* const grad = tensors_.grad.at<T>(unit_.sample, query, head);
    grad_.set(grad, tensors_.grad.position, queries);
    const T* const result = tensors_.result.at<T>(unit_.sample, query, head);
    const float* const lse =
        tensors_.lse.data<float>() + (unit_.sample * sizes.heads + head) * sizes.queries + query;
    // Probabilities of columns beyond the queries are 0.
    std::fill_n(lse_, kTileQueries, kInfinite);
    std::fill_n(mean_, kTileQueries, 0.0F);
    std::copy_n(lse, queries, lse_);
    for (std::int64_t i = 0; i < queries; ++i) {
      mean_[i] = row_dot(grad + i * tensors_.grad.position, result + i * tensors_.result.position);
    }
  }

  // The sum over all keys of a probability times its gradient.
  float row_dot(const T* grad, const T* result) const {
    auto sum = hn::Zero(F32());
    for_row(problem_.sizes.values, [&](std::int64_t c, auto part) HWY_ATTR {
      sum = hn::MulAdd(load(grad + c, part), load(result + c, part), sum);
    });
    return hn::GetLane(hn::SumOfLanes(F32(), sum));
  }

  void add_tile() {
    const TilePlace& place = tile_.place();
    const std::int64_t key_head = place.head / problem_.sizes.group();
    k_.set(problem_.k.at<T>(place.sample, place.key, key_head), problem_.k.position, place.keys,
           wants_queries());
    v_.set(problem_.v.at<T>(place.sample, place.key, key_head), problem_.v.position, place.keys,
           false);
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
  void multiply_rows(const KeyOperand<T, kPaired>& keys, const QueryOperand<T, kPaired>& queries,
                     const Strip& strip, float scale, float* sums) const {
    multiply<kPaired>({.a = keys.rows().from(strip.begin, 0),
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
    const auto lse = load(lse_ + column);
    const auto mean = load(mean_ + column);
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
      pair_grad_scores();
      terms = pairs_;
    }
    tile_.for_strips([&](const Strip& strip) {
      const std::int64_t begin = kPaired ? strip.begin / 2 : strip.begin;
      multiply<kPaired>({.a = k_.columns().from(0, begin),
                         .b = terms + begin * kTilePitch + strip.column(),
                         .b_row = kTilePitch,
                         .sums = grad_q_ + strip.column(),
                         .sums_row = kTilePitch,
                         .rows = problem_.sizes.features,
                         .terms = numbers_of<kPaired>(strip.keys()),
                         .vectors = tile_.vectors() - strip.vector,
                         .adds = true});
    });
  }

  void pair_grad_scores() {
    for (std::int64_t v = 0; v < tile_.vectors(); ++v) {
      const std::int64_t rows = tile_.rows(v);
      float* const column = grad_scores_ + v * lanes();
      if (rows % 2 != 0) store(hn::Zero(F32()), column + rows * kTilePitch);
      for (std::int64_t j = 0; j < rows; j += 2) {
        const float* const at = column + j * kTilePitch;
        pair_up(at, at + kTilePitch, lanes(), pairs_ + j / 2 * kTilePitch + v * lanes());
      }
    }
  }

  // sums [keys][features] += a tile [keys][queries] times rows of queries.
  void add_to_keys(const float* tile, const QueryOperand<T, kPaired>& queries, float* sums) {
    Numbers a{tile, kTilePitch * std::int64_t{sizeof(float)}, sizeof(float)};
    if constexpr (kPaired) {
      narrow(tile);
      a = {narrow_, kTilePitch * std::int64_t{sizeof(BFloat16)}, sizeof(float)};
    }
    tile_.for_strips([&](const Strip& strip) {
      const std::int64_t first = kPaired ? strip.column() / 2 : strip.column();
      const std::int64_t count = tile_.place().queries - strip.column();
      multiply<kPaired>({.a = a.from(strip.begin, first),
                         .b = queries.rows() + first * queries.width(),
                         .b_row = queries.width(),
                         .sums = sums + strip.begin * queries.width(),
                         .sums_row = queries.width(),
                         .rows = strip.keys(),
                         .terms = numbers_of<kPaired>(count),
                         .vectors = queries.vectors(),
                         .adds = true});
    });
  }

  // Rounds the computed part of a tile to bf16, row by row.
  void narrow(const float* tile) {
    auto* const to = reinterpret_cast<BFloat16*>(narrow_);
    for (std::int64_t v = 0; v < tile_.vectors(); ++v) {
      for (std::int64_t j = 0; j < tile_.rows(v); ++j) {
        const std::int64_t at = j * kTilePitch + v * lanes();
        store(load(tile + at), to + at);
      }
    }
  }

  void write_queries(std::int64_t head, std::int64_t query, std::int64_t queries) const {
    const AttentionSizes& s = problem_.sizes;
    T* const to = tensors_.grad_q.template mutable_data<T>() +
                  ((unit_.sample * s.queries + query) * s.heads + head) * s.features;
    write_columns(grad_q_, static_cast<float>(problem_.attrs.scale), s.features, queries, to,
                  s.heads * s.features);
  }

  void write_keys() const {
    const AttentionSizes& s = problem_.sizes;
    const std::int64_t first = unit_.key_tile * kTileKeys;
    const std::int64_t keys = std::min(unit_.key_tiles * kTileKeys, s.keys - first);
    if (keys <= 0) return;
    const std::int64_t key_head = unit_.head / s.group();
    const auto write = [&](const float* sums, std::int64_t width, float scale, const Tensor& grad,
                           std::int64_t n) HWY_ATTR {
      T* to =
          grad.mutable_data<T>() + ((unit_.sample * s.keys + first) * s.key_heads + key_head) * n;
      for (std::int64_t j = 0; j < keys; ++j, to += s.key_heads * n, sums += width) {
        for_row(n, [&](std::int64_t c, auto part) HWY_ATTR {
          store(hn::Mul(load(sums + c), hn::Set(F32(), scale)), to + c, part);
        });
      }
    };
    write(grad_k_, q_.width(), static_cast<float>(problem_.attrs.scale), tensors_.grad_k,
          s.features);
    write(grad_v_, grad_.width(), 1, tensors_.grad_v, s.values);
  }

  const Problem& problem_;
  const GradTensors& tensors_;
  Gradients what_;
  GradUnit unit_;
  QueryOperand<T, kPaired> q_;
  QueryOperand<T, kPaired> grad_;
  KeyOperand<T, kPaired> k_;
  KeyOperand<T, kPaired> v_;
  ScoreTile tile_;
  float* probabilities_;     // [kTileKeys][kTilePitch], first scores
  float* grad_scores_;       // the same shape, first gradients of probabilities
  float* grad_q_ = nullptr;  // [features][kTilePitch]
  float* grad_k_ = nullptr;  // [keys][q_.width()]
  float* grad_v_ = nullptr;  // [keys][grad_.width()]
  float* pairs_ = nullptr;   // [kTileKeys / 2][kTilePitch]
  float* narrow_ = nullptr;  // bf16 [kTileKeys][kTilePitch]
  alignas(64) float lse_[kTileQueries];
  alignas(64) float mean_[kTileQueries];
};

// Runs units, of which unit(i) is number i.
template <class T, bool kPaired, class Unit>
void run_units(const Problem& problem, const GradTensors& tensors, Gradients what,
               std::int64_t units, const Unit& unit) {
  using Worker = GradWorker<T, kPaired>;
  const AttentionSizes& sizes = problem.sizes;
  const std::int64_t key_tiles = what == Gradients::kKeys ? 1 : problem.key_tiles();
  Room counted;
  Worker(problem, tensors, what, key_tiles, counted);
  const double products = static_cast<double>(sizes.batch * sizes.heads) *
                          static_cast<double>(3 * sizes.features + 2 * sizes.values) *
                          sizes.scores(problem.attrs.causal);
  const std::int64_t grain = kernels::attention::grain_of(units, products);
  parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
    const Tensor memory = scratch({counted.used()}, DType::kF32);
    Room room(memory.mutable_data<float>());
    Worker worker(problem, tensors, what, key_tiles, room);
    for (std::int64_t i = begin; i < end; ++i) worker.run(unit(i));
  });
}

// Whether a thread for each head of keys keeps all threads busy: dividing heads takes 7 products
// instead of 5.
bool has_heads_enough(std::int64_t heads) {
  const std::int64_t threads = num_threads();
  const std::int64_t turns = ceil_div(heads, threads);
  return 5 * turns * threads <= 7 * heads;
}

template <class T, bool kPaired>
void grad_of(const KernelArgs& args) {
  const Problem problem(args, AttentionGradIn::kQ, AttentionGradIn::kStart);
  const GradTensors tensors(args);
  const AttentionSizes& s = problem.sizes;
  const std::int64_t group = s.group();
  const std::int64_t query_tiles = problem.query_tiles();
  const std::int64_t key_tiles = problem.key_tiles();
  if (has_heads_enough(s.batch * s.key_heads)) {
    run_units<T, kPaired>(
        problem, tensors, Gradients::kAll, s.batch * s.key_heads, [&](std::int64_t i) -> GradUnit {
          return {i / s.key_heads, i % s.key_heads * group, group, 0, query_tiles, 0, key_tiles};
        });
    return;
  }
  using kernels::attention::from_both_ends;
  run_units<T, kPaired>(
      problem, tensors, Gradients::kQueries, s.batch * s.heads * query_tiles,
      [&](std::int64_t i) -> GradUnit {
        const std::int64_t head = i / query_tiles;
        return {
            head / s.heads, head % s.heads, 1, from_both_ends(i % query_tiles, query_tiles), 1, 0,
            key_tiles};
      });
  run_units<T, kPaired>(problem, tensors, Gradients::kKeys, s.batch * s.key_heads * key_tiles,
                        [&](std::int64_t i) -> GradUnit {
                          const std::int64_t head = i / key_tiles;
                          return {head / s.key_heads,
                                  head % s.key_heads * group,
                                  group,
                                  0,
                                  query_tiles,
                                  from_both_ends(i % key_tiles, key_tiles),
                                  1};
                        });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE::attention_tiles

namespace mezzo::HWY_NAMESPACE {

void attention_grad_tiles(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(0).dtype(),
                              [&]<class T>() { attention_tiles::grad_of<T, false>(args); });
}

void attention_grad_dots(const KernelArgs& args) {
  if constexpr (attention_tiles::kMayHaveDots) {
    attention_tiles::grad_of<BFloat16, true>(args);
  } else {
    attention_tiles::grad_of<BFloat16, false>(args);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::attention {

HWY_EXPORT(attention_grad_tiles);
HWY_EXPORT(attention_grad_dots);

void run_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_grad_tiles)(args); }

void run_grad_dots(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_grad_dots)(args); }

}  // namespace mezzo::kernels::attention
#endif
