#include "mezzo/nn/multi_head_attention.h"

#include <limits>

#include "mezzo/nn/heads.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/optional_input.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {
namespace {

constexpr const char* kAttentionName = "MultiHeadAttention";

Shape in_proj_shape(std::int64_t size, std::int64_t heads) {
  check_arg(size > 0 && heads > 0 && size % heads == 0, kAttentionName, "the size ", size,
            " cannot be divided among ", heads, " heads. Choose a positive multiple of the heads");
  return {3 * size, size};
}

bool are_one(const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); }

}  // namespace

Tensor joined_mask(const Tensor& key_mask, const Tensor& mask) {
  if (!key_mask.defined()) return mask;
  check_arg(key_mask.dtype() == DType::kBool && key_mask.rank() == 2, kAttentionName,
            "key_mask must be bool [batch, keys], true for keys that may be attended to; it is ",
            key_mask.dtype(), " ", key_mask.shape());
  const Tensor keys = reshape(key_mask, {key_mask.size(0), 1, 1, key_mask.size(1)});
  if (!mask.defined()) return keys;
  // A region would round a floating mask to 16 bits before it is added to scores in f32.
  const WithoutPrecisionHook outside;
  if (mask.dtype() != DType::kBool) {
    return masked_fill(mask, eq(keys, 0), -std::numeric_limits<double>::infinity());
  }
  return where(keys, mask, keys);  // where keys is false, it is the false of a joined mask
}

MultiHeadAttention::MultiHeadAttention(std::int64_t size, std::int64_t heads,
                                       MultiHeadAttentionOptions options)
    : size_(size),
      heads_(heads),
      options_(options),
      in_proj_weight_(empty(in_proj_shape(size, heads))),
      out_proj_(size, size, options.bias) {
  check_arg(options.dropout >= 0 && options.dropout < 1, kAttentionName,
            "dropout must be in [0, 1), not ", options.dropout);
  init::xavier_uniform(in_proj_weight_);
  add_parameter("in_proj_weight", in_proj_weight_);
  if (options.bias) {
    in_proj_bias_ = zeros({3 * size});
    add_parameter("in_proj_bias", in_proj_bias_);
    init::constant(out_proj_.bias(), 0);
  }
  add("out_proj", out_proj_);
}

Tensor MultiHeadAttention::forward(const Tensor& x) { return attend(project(x, x, x), {}); }

Tensors MultiHeadAttention::forward_all(const Tensors& inputs) {
  constexpr std::size_t kMost = 5;
  if (inputs.size() == 1) return {forward(inputs[0])};
  check_arg(inputs.size() >= 3 && inputs.size() <= kMost, kAttentionName,
            "the inputs are x, or query, key, value, key_mask and mask, of which the masks may be "
            "left out; there are ",
            inputs.size());
  for (std::size_t i = 0; i < 3; ++i) {
    check_arg(inputs[i].defined(), kAttentionName,
              "query, key or value is undefined. Give all three");
  }
  const Projected projected = project(inputs[0], inputs[1], inputs[2]);
  return {attend(projected, joined_mask(input_or_none(inputs, 3), input_or_none(inputs, 4)))};
}

// Applies `count` thirds of the weight, beginning with `first`.
Tensor MultiHeadAttention::project_by(const Tensor& x, std::int64_t first,
                                      std::int64_t count) const {
  const std::int64_t begin = first * size_;
  const std::int64_t end = begin + count * size_;
  return linear(x, slice(in_proj_weight_, 0, begin, end),
                options_.bias ? slice(in_proj_bias_, 0, begin, end) : Tensor());
}

// Inputs that are the same tensor share one product.
MultiHeadAttention::Projected MultiHeadAttention::project(const Tensor& query, const Tensor& key,
                                                          const Tensor& value) const {
  if (are_one(query, key) && are_one(key, value)) {
    // The whole weight, not a view of it: its 16-bit copy is shared by all steps until it changes.
    const auto thirds = split(linear(query, in_proj_weight_, in_proj_bias_), size_, -1);
    return {thirds[0], thirds[1], thirds[2]};
  }
  const Tensor projected_query = project_by(query, 0, 1);
  if (are_one(key, value)) {
    const std::vector<Tensor> both = split(project_by(key, 1, 2), size_, -1);
    return {projected_query, both[0], both[1]};
  }
  return {projected_query, project_by(key, 1, 1), project_by(value, 2, 1)};
}

Tensor MultiHeadAttention::attend(const Projected& projected, const Tensor& mask) {
  const Tensor y = attention(
      split_heads(projected.query, heads_), split_heads(projected.key, heads_),
      split_heads(projected.value, heads_),
      {.mask = mask, .causal = options_.causal, .dropout = is_training() ? options_.dropout : 0});
  return out_proj_(merge_heads(y));
}

}  // namespace mezzo::nn
