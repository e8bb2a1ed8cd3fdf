// Networks of the Llama family.
#pragma once

#include <memory>

#include "mezzo/models/language_model.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/nn/module.h"

namespace mezzo::models {

// The sizes of a Llama, with the names of Hugging Face's config.json where they differ.
struct LlamaOptions {
  std::int64_t vocabulary = 32000;  // vocab_size
  std::int64_t layers = 12;         // num_hidden_layers
  std::int64_t heads = 12;          // num_attention_heads
  std::int64_t key_heads = 4;       // num_key_value_heads: heads / key_heads queries share one
  std::int64_t width = 768;         // hidden_size
  std::int64_t hidden = 2048;       // intermediate_size
  double theta = 10000;             // rope_theta
  double eps = 1e-5;                // rms_norm_eps
  bool tied = false;                // tie_word_embeddings: the head is the table of tokens
};

// Touvron et al.: "LLaMA: open and efficient foundation language models", 2023, with the grouped
// queries of Ainslie et al.: "GQA: training generalized multi-query transformer models", 2023: a
// transformer with RMS norms first, rotary positions, SwiGLU and no biases. Initial values are
// N(0, 0.02), as in Hugging Face. The residual stream is f32 at O2, as in Gpt.
//
// State, as in Hugging Face's LlamaForCausalLM: `model.embed_tokens.weight`,
// `model.layers.0.self_attn.q_proj.weight`, `k_proj`, `v_proj`, `o_proj`,
// `model.layers.0.mlp.gate_proj.weight`, `up_proj`, `down_proj`,
// `model.layers.0.input_layernorm.weight`, `model.layers.0.post_attention_layernorm.weight`,
// `model.norm.weight`, `lm_head.weight`. Files may lack the prefix `model.`.
class Llama : public nn::Module, public WeightFiles, public LanguageModel {
 public:
  // Throws ArgumentError for sizes that are not positive, unless `heads` divides `width` into even
  // parts, and unless `key_heads` divides `heads`.
  explicit Llama(LlamaOptions options = {});
  ~Llama() override;

  // tokens: i64 [b, t] in [0, vocabulary). The logits of each next token: [b, t, vocabulary].
  Tensor forward(const Tensor& tokens) override;

  using LanguageModel::next_logits;
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache,
                     std::span<const std::int64_t> counts) override;
  std::int64_t vocabulary() const override { return options_.vocabulary; }
  std::int64_t longest_sequence() const override { return 0; }

  const LlamaOptions& options() const { return options_; }

  std::vector<NamedTensor> from_file(std::vector<NamedTensor> tensors) const override;
  std::vector<NamedTensor> to_file() const override;

 private:
  class Body;

  LlamaOptions options_;
  std::unique_ptr<Body> model_;
  std::unique_ptr<nn::Module> lm_head_;
};

}  // namespace mezzo::models
