#include "mezzo/models/llama_blocks.h"

#include "mezzo/nn/heads.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/rope.h"

namespace mezzo::models {

LlamaAttention::LlamaAttention(const LlamaOptions& options)
    : options_(options),
      q_proj_(options.width, options.width, false),
      k_proj_(options.width, options.width / options.heads * options.key_heads, false),
      v_proj_(options.width, options.width / options.heads * options.key_heads, false),
      o_proj_(options.width, options.width, false) {
  add("q_proj", q_proj_);
  add("k_proj", k_proj_);
  add("v_proj", v_proj_);
  add("o_proj", o_proj_);
}

Tensor LlamaAttention::forward(const Tensor& x) { return attend(x, nullptr); }

Tensor LlamaAttention::after(const Tensor& x, KeyValues& earlier) {
  return run(x, [&](const Tensor& input) { return attend(input, &earlier); });
}

Tensor LlamaAttention::attend(const Tensor& x, KeyValues* earlier) {
  KeyValues own;
  KeyValues& all = earlier != nullptr ? *earlier : own;
  const std::int64_t first = all.length();
  const auto rotated = [&](const Tensor& heads) {
    if (all.positions.defined()) return rope(heads, all.positions, {.theta = options_.theta});
    return rope(heads, {.theta = options_.theta, .offset = first});
  };
  const Tensor queries = rotated(nn::split_heads(q_proj_(x), options_.heads));
  all.append(rotated(nn::split_heads(k_proj_(x), options_.key_heads)),
             nn::split_heads(v_proj_(x), options_.key_heads));
  const AttentionOptions options{.mask = all.mask, .causal = true};
  return o_proj_(nn::merge_heads(attention(queries, all.keys, all.values, options)));
}

LlamaBlock::LlamaBlock(const LlamaOptions& options)
    : self_attn_(options),
      mlp_(options.width, options.hidden),
      input_layernorm_(options.width, {.eps = options.eps}),
      post_attention_layernorm_(options.width, {.eps = options.eps}) {
  add("self_attn", self_attn_);
  add("mlp", mlp_);
  add("input_layernorm", input_layernorm_);
  add("post_attention_layernorm", post_attention_layernorm_);
}

Tensor LlamaBlock::forward(const Tensor& x) { return add_branches(x, nullptr); }

Tensor LlamaBlock::after(const Tensor& x, KeyValues& earlier) {
  return run(x, [&](const Tensor& input) { return add_branches(input, &earlier); });
}

Tensor LlamaBlock::add_branches(const Tensor& x, KeyValues* earlier) {
  const Tensor normed = input_layernorm_(x);
  const Tensor attended =
      add_residual(x, earlier != nullptr ? self_attn_.after(normed, *earlier) : self_attn_(normed));
  return add_residual(attended, mlp_(post_attention_layernorm_(attended)));
}

}  // namespace mezzo::models
