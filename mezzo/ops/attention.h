// Scaled dot product attention.
//
// Vaswani et al., "Attention is all you need", NeurIPS 2017. It is computed tile by tile, as in
// Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

struct AttentionOptions {
  // bool (true: the query may attend to the key), or floating (added to the scores); broadcast to
  // [b, h, t, s]. Undefined: no mask. Hide keys by false or -infinity: where every key of a query
  // has a large finite negative number, such as -1e9, log-sum-exp in f32 has no digits left for
  // their number, and gradients are wrong.
  Tensor mask{};
  // Query i sees keys 0 to i + (s - t) only: the last query sees all keys, so that a few queries
  // fit the keys of a cache. Needs t <= s. For t == s it is the same as counting from the first
  // query.
  bool causal = false;
  std::optional<double> scale{};  // of the scores; 1 / sqrt(d) by default
  // The probability that a probability is replaced by 0; the others are divided by 1 - dropout.
  // Give 0 outside training. The choice comes from default_generator(), as in dropout().
  double dropout = 0;
};

// softmax(q k^T * scale + mask) v.
//
// q: [b, h, t, d]; k: [b, h_kv, s, d]; v: [b, h_kv, s, dv], of which h is a multiple of h_kv:
// h / h_kv neighbouring heads of q share one of k and v (grouped queries). The result is
// [b, h, t, dv]. dtypes of q, k and v are promoted.
//
// Scores and the statistics of softmax are f32 (f64 for f64), also in 16 bits and in a region. A
// query that may attend to no key gets 0, and a gradient of 0. Hidden keys and values must be
// finite all the same, since they are multiplied by 0. Throws ArgumentError for shapes that do not
// fit.
//
// The result is a view of a dense [b, t, h, dv], and nothing of size t * s is kept for the
// gradient, but the gradient with respect to a floating mask, and second derivatives, take memory
// of that size. So does attention on devices with more than 256 features or values in a head: it is
// composed of other operations then, and its result is dense. Devices round probabilities, and in
// the gradient those of scores, to the dtype of q for their products.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

}  // namespace mezzo
