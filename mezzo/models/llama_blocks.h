// The blocks of Llama.
#pragma once

#include "mezzo/models/key_value_cache.h"
#include "mezzo/models/llama.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/rms_norm.h"
#include "mezzo/nn/swi_glu.h"

namespace mezzo::models {

// Causal self attention with rotary positions and grouped queries.
class LlamaAttention : public nn::Module {
 public:
  explicit LlamaAttention(const LlamaOptions& options);

  // x: [b, t, width], as the result.
  Tensor forward(const Tensor& x) override;
  // The same for tokens that follow `earlier` ones, to which theirs are appended.
  Tensor after(const Tensor& x, KeyValues& earlier);

 private:
  Tensor attend(const Tensor& x, KeyValues* earlier);

  LlamaOptions options_;
  nn::Linear q_proj_;
  nn::Linear k_proj_;
  nn::Linear v_proj_;
  nn::Linear o_proj_;
};

// x + self_attn(input_layernorm(x)), and that + mlp(post_attention_layernorm(...)).
class LlamaBlock : public nn::Module {
 public:
  explicit LlamaBlock(const LlamaOptions& options);

  // x: [b, t, width], as the result, in the dtype of x.
  Tensor forward(const Tensor& x) override;
  // The same for tokens that follow `earlier` ones, to which theirs are appended.
  Tensor after(const Tensor& x, KeyValues& earlier);

 private:
  Tensor add_branches(const Tensor& x, KeyValues* earlier);

  LlamaAttention self_attn_;
  nn::SwiGlu mlp_;
  nn::RmsNorm input_layernorm_;
  nn::RmsNorm post_attention_layernorm_;
};

}  // namespace mezzo::models
