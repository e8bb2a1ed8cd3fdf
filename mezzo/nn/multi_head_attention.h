// Multi-head attention.
#pragma once

#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct MultiHeadAttentionOptions {
  bool bias = true;     // of all four projections
  double dropout = 0;   // of the probabilities, in training
  bool causal = false;  // query i sees the keys up to its own position; see AttentionOptions
};

// Vaswani et al.: "Attention is all you need", 2017, section 3.2.2: attention() of projections of
// queries, keys and values, with `heads` heads of size / heads features each, and a projection of
// the result. State, as in PyTorch's nn.MultiheadAttention: `in_proj_weight` [3 * size, size],
// whose thirds are for queries, keys and values, `in_proj_bias` [3 * size], `out_proj.weight`
// [size, size] and `out_proj.bias` [size], with PyTorch's initial values.
//
//   attn(x)                                self attention of x [b, t, size], with one product
//   attn({query, key, value})              [b, t, size], [b, s, size], [b, s, size]
//   attn({query, key, value, key_mask, mask})
//
// Each gives [b, t, size]. Either mask may be undefined or left out. In a mask, true means "may be
// attended to": in `key_mask`, bool [b, s], for keys that are not padding; in `mask`, which
// broadcasts to [b, heads, t, s], for pairs of a query and a key. A floating `mask` is added to the
// scores, as in PyTorch. PyTorch's module inverts masks of bool: true there means "is left out". A
// query that may attend to nothing gets out_proj.bias.
//
// Throws ArgumentError unless `heads` divides `size` and 0 <= dropout < 1; when called, for other
// numbers of inputs, and for shapes and dtypes that do not fit.
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(std::int64_t size, std::int64_t heads, MultiHeadAttentionOptions options = {});

  Tensor forward(const Tensor& x) override;
  Tensors forward_all(const Tensors& inputs) override;

  const Tensor& in_proj_weight() const { return in_proj_weight_; }
  const Tensor& in_proj_bias() const { return in_proj_bias_; }  // undefined without biases

 private:
  struct Projected {
    Tensor query{};
    Tensor key{};
    Tensor value{};
  };

  Projected project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor project_by(const Tensor& x, std::int64_t first, std::int64_t count) const;
  Tensor attend(const Projected& projected, const Tensor& mask);

  std::int64_t size_;
  std::int64_t heads_;
  MultiHeadAttentionOptions options_;
  Tensor in_proj_weight_;
  Tensor in_proj_bias_;
  Linear out_proj_;
};

// The mask for attention() from a mask of keys, bool [b, s], and a mask of pairs, which broadcasts
// to [b, heads, t, s]; either may be undefined. true means "may be attended to". Throws
// ArgumentError unless the mask of keys is bool and has two axes.
Tensor joined_mask(const Tensor& key_mask, const Tensor& mask);

}  // namespace mezzo::nn
