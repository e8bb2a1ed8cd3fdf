// The blocks of Gpt.
#pragma once

#include "mezzo/models/gpt.h"
#include "mezzo/models/key_value_cache.h"
#include "mezzo/nn/linear.h"

namespace mezzo::models {

// Causal self attention: one product for queries, keys and values, and one for the result.
class GptAttention : public nn::Module {
 public:
  explicit GptAttention(const GptOptions& options);

  // x: [b, t, width], as the result.
  Tensor forward(const Tensor& x) override;
  // The same for tokens that follow `earlier` ones, to which theirs are appended.
  Tensor after(const Tensor& x, KeyValues& earlier);

 private:
  Tensor attend(const Tensor& x, KeyValues* earlier);

  std::int64_t width_;
  std::int64_t heads_;
  double dropout_;
  nn::Linear c_attn_;
  nn::Linear c_proj_;
};

// Two linear layers with GELU between them, four times as wide.
class GptMlp : public nn::Module {
 public:
  explicit GptMlp(const GptOptions& options);

  Tensor forward(const Tensor& x) override;

 private:
  nn::Linear c_fc_;
  nn::Linear c_proj_;
};

// x + attn(ln_1(x)), and that + mlp(ln_2(...)).
class GptBlock : public nn::Module {
 public:
  explicit GptBlock(const GptOptions& options);

  // x: [b, t, width], as the result, in the dtype of x.
  Tensor forward(const Tensor& x) override;
  // The same for tokens that follow `earlier` ones, to which theirs are appended.
  Tensor after(const Tensor& x, KeyValues& earlier);

 private:
  Tensor add_branches(const Tensor& x, KeyValues* earlier);

  double dropout_;
  nn::LayerNorm ln_1_;
  GptAttention attn_;
  nn::LayerNorm ln_2_;
  GptMlp mlp_;
};

}  // namespace mezzo::models
