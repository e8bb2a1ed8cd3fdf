// The transformer of Vit.
#pragma once

#include <memory>
#include <vector>

#include "mezzo/models/vit.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/multi_head_attention.h"

namespace mezzo::models {

// x + self_attention(ln_1(x)), and that + mlp(ln_2(...)).
class VitBlock : public nn::Module {
 public:
  explicit VitBlock(const VitOptions& options);

  // x: [n, tokens, width], as the result, in the dtype of x.
  Tensor forward(const Tensor& x) override;

 private:
  double dropout_;
  nn::LayerNorm ln_1_;
  nn::MultiHeadAttention self_attention_;
  nn::LayerNorm ln_2_;
  nn::Sequential mlp_;
};

// Blocks one after another, named `encoder_layer_0`, `encoder_layer_1`, ...
class VitBlocks : public nn::Module {
 public:
  explicit VitBlocks(const VitOptions& options);

  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::unique_ptr<VitBlock>> blocks_;
};

// Adds positions, and applies the blocks and a last norm.
class VitEncoder : public nn::Module {
 public:
  VitEncoder(std::int64_t tokens, const VitOptions& options);

  // x: [n, tokens, width]; the result has its shape, and is f32 at O2.
  Tensor forward(const Tensor& x) override;

 private:
  double dropout_;
  Tensor pos_embedding_;
  VitBlocks layers_;
  nn::LayerNorm ln_;
};

}  // namespace mezzo::models
