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

Tensor LlamaAttention::forward(const Tensor& x) {
  const auto rotated = [&](const Tensor& heads) { return rope(heads, {.theta = options_.theta}); };
  const Tensor y = attention(rotated(nn::split_heads(q_proj_(x), options_.heads)),
                             rotated(nn::split_heads(k_proj_(x), options_.key_heads)),
                             nn::split_heads(v_proj_(x), options_.key_heads), {.causal = true});
  return o_proj_(nn::merge_heads(y));
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

Tensor LlamaBlock::forward(const Tensor& x) {
  const Tensor attended = add_residual(x, self_attn_(input_layernorm_(x)));
  return add_residual(attended, mlp_(post_attention_layernorm_(attended)));
}

}  // namespace mezzo::models
