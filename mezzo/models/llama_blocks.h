// The blocks of Llama.
#pragma once

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

 private:
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

 private:
  LlamaAttention self_attn_;
  nn::SwiGlu mlp_;
  nn::RmsNorm input_layernorm_;
  nn::RmsNorm post_attention_layernorm_;
};

}  // namespace mezzo::models
