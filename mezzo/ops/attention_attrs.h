// The attributes, the inputs and the sizes of attention, for its definitions and kernels.
#pragma once

#include "mezzo/core/math.h"
#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/dispatcher/no_draw.h"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo {

struct AttentionAttrs {
  bool causal = false;
  double scale = 1;
  double dropout = 0;  // the probability that a probability is dropped
  // Word AttentionSizes::word() decides about a probability; kDrawsNothing without dropout.
  RandomPosition position = kDrawsNothing;
  static constexpr auto kFields = std::tuple(
      Field{"causal", &AttentionAttrs::causal}, Field{"scale", &AttentionAttrs::scale},
      Field{"dropout", &AttentionAttrs::dropout}, Field{"position", &AttentionAttrs::position});
  bool operator==(const AttentionAttrs&) const = default;

  bool drops() const { return dropout > 0; }
  // As attributes of dropout(), on a tensor [b, h, t, AttentionSizes::pitch()].
  DropoutAttrs as_dropout() const { return {dropout, position, Format::kContiguous}; }
};

// The inputs. A head's rows lie apart, as in the result of a linear layer:
// q: [b, t, h, d]; k: [b, s, h_kv, d]; v: [b, s, h_kv, dv]; mask: [b|1, h|1, t|1, s|1], or absent.
struct AttentionInput {
  enum : std::size_t { kQ, kK, kV, kMask, kStart };  // kStart: as that of dropout()
};

// grad and result: [b, t, h, dv]; lse: [b, h, t]; the others as above.
struct AttentionGradInput {
  enum : std::size_t { kGrad, kQ, kK, kV, kMask, kResult, kLse, kStart };
};

struct AttentionSizes {
  // The most features and values of a head that kernels of devices compute.
  static constexpr std::int64_t kMostOnDevices = 256;

  std::int64_t batch = 0;
  std::int64_t queries = 0;    // t
  std::int64_t keys = 0;       // s
  std::int64_t heads = 0;      // h
  std::int64_t key_heads = 1;  // h_kv
  std::int64_t features = 0;   // d, of q and k
  std::int64_t values = 0;     // dv, of v

  // The shapes of q, k and v.
  AttentionSizes(const Shape& q, const Shape& k, const Shape& v)
      : batch(q[0]),
        queries(q[1]),
        keys(k[1]),
        heads(q[2]),
        key_heads(k[2]),
        features(q[3]),
        values(v[3]) {}

  // The number of heads of q that share a head of k and v.
  constexpr std::int64_t group() const { return heads / key_heads; }
  // Query i sees keys [0, visible(i)): the last query sees all of them.
  constexpr std::int64_t visible(std::int64_t i, bool causal) const {
    return causal ? i + 1 + keys - queries : keys;
  }
  // The number of scores that are not hidden by `causal`, of all queries of a head.
  double scores(bool causal) const {
    const auto t = static_cast<double>(queries);
    const auto s = static_cast<double>(keys);
    return causal ? t * (s - t) + t * (t + 1) / 2 : t * s;
  }

  // Random words: rows of probabilities begin at whole blocks of four.
  constexpr std::int64_t pitch() const { return ceil_div(keys, std::int64_t{4}) * 4; }
  std::int64_t words() const { return batch * heads * queries * pitch(); }
  // The first word of row i of a head.
  constexpr std::uint64_t word(std::int64_t sample, std::int64_t head, std::int64_t i) const {
    return static_cast<std::uint64_t>(((sample * heads + head) * queries + i) * pitch());
  }
};

}  // namespace mezzo
