// GPT-2 and small networks of its kind.
#pragma once

#include "mezzo/models/language_model.h"
#include "mezzo/models/tied_head.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/positions.h"

namespace mezzo::models {

// The sizes of a GPT; those of GPT-2 124M by default.
struct GptOptions {
  std::int64_t vocabulary = 50257;
  std::int64_t positions = 1024;  // the length of the longest sequence
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  double dropout = 0.1;  // of embeddings, probabilities and branches
  double eps = 1e-5;     // of the norms

  static GptOptions tiny();    // 6 layers, 6 heads, width 384, a vocabulary of 256 bytes
  static GptOptions gpt2();    // GPT-2 124M
  static GptOptions medium();  // GPT-2 355M
  static GptOptions large();   // GPT-2 774M
  static GptOptions xl();      // GPT-2 1558M
};

// Radford et al.: "Language models are unsupervised multitask learners", 2019: a transformer whose
// tokens attend to earlier ones, norms first, GELU by its tanh formula, and a head that is the
// table of tokens. Initial values are N(0, 0.02) for matrices, divided by sqrt(2 * layers) for
// those whose result is added to the residual stream, and 0 for biases.
//
// The residual stream is f32 at O2 (see add_residual()): the norms read it, and what they give to a
// product is rounded there.
//
// State, as in Hugging Face's GPT-2: `wte.weight`, `wpe.weight`, `h.0.ln_1.*`, `h.0.attn.c_attn.*`,
// `h.0.attn.c_proj.*`, `h.0.ln_2.*`, `h.0.mlp.c_fc.*`, `h.0.mlp.c_proj.*`, `ln_f.*`,
// `lm_head.weight`, which is `wte.weight`. The matrices of linear layers are [out, in] here and
// [in, out] in files of Hugging Face; see weight_files.h.
class Gpt : public nn::Module, public WeightFiles, public LanguageModel {
 public:
  // Throws ArgumentError for sizes that are not positive, and unless `heads` divides `width`.
  explicit Gpt(GptOptions options = {});

  // tokens: i64 [b, t] in [0, vocabulary), t <= positions. The logits of each next token:
  // [b, t, vocabulary].
  Tensor forward(const Tensor& tokens) override;

  using LanguageModel::next_logits;
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache,
                     std::span<const std::int64_t> counts) override;
  std::int64_t vocabulary() const override { return options_.vocabulary; }
  std::int64_t longest_sequence() const override { return options_.positions; }

  const GptOptions& options() const { return options_; }

  std::vector<NamedTensor> from_file(std::vector<NamedTensor> tensors) const override;
  std::vector<NamedTensor> to_file() const override;

 private:
  GptOptions options_;
  nn::Embedding wte_;
  nn::LearnedPositions wpe_;
  nn::ModuleList blocks_;
  nn::LayerNorm ln_f_;
  TiedHead lm_head_;
};

}  // namespace mezzo::models
