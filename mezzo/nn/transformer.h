// The layers of transformers.
#pragma once

#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/nn/multi_head_attention.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

// What follows the first of the two linear layers.
enum class FeedForwardActivation : std::uint8_t { kRelu, kGelu, kGeluTanh };

struct TransformerLayerOptions {
  std::int64_t feedforward = 2048;  // features between the two linear layers
  double dropout = 0.1;             // of probabilities, of the activation and of each branch
  FeedForwardActivation activation = FeedForwardActivation::kRelu;
  // Whether a branch normalises what it reads (x + f(norm(x))), or the sum is normalised
  // (norm(x + f(x)), as in the paper).
  bool norm_first = false;
  bool causal = false;  // of the self attention
  bool bias = true;     // of attention and the linear layers
  double eps = 1e-5;    // of the norms
};

// Self attention and two linear layers, each a branch of the residual stream: Vaswani et al.:
// "Attention is all you need", 2017, section 3.1. The stream keeps its dtype (see add_residual()):
// f32 at O2. State, as in PyTorch's nn.TransformerEncoderLayer: `self_attn.*` (of
// MultiHeadAttention), `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`.
//
//   layer(x)                       x: [b, t, size], as the result
//   layer({x, key_mask, mask})     masks as in MultiHeadAttention, where true means "may be
//                                  attended to"; either may be undefined or left out
//
// Throws ArgumentError like its layers, and for other numbers of inputs.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t size, std::int64_t heads,
                          TransformerLayerOptions options = {});

  Tensor forward(const Tensor& x) override;
  Tensors forward_all(const Tensors& inputs) override;

 private:
  Tensor run_layer(const Tensor& x, const Tensor& key_mask, const Tensor& mask);

  TransformerLayerOptions options_;
  MultiHeadAttention self_attn_;
  Linear linear1_;
  Linear linear2_;
  LayerNorm norm1_;
  LayerNorm norm2_;
};

// Self attention, attention to the encoder's result `memory`, and two linear layers. State, as in
// PyTorch's nn.TransformerDecoderLayer: `self_attn.*`, `multihead_attn.*`, `linear1.*`,
// `linear2.*`, `norm1.*`, `norm2.*`, `norm3.*`.
//
//   layer({x, memory})             x: [b, t, size], as the result; memory: [b, s, size]
//   layer({x, memory, key_mask, mask, memory_key_mask, memory_mask})
//
// The masks are as in MultiHeadAttention; each may be undefined, and the last ones left out. With
// `causal`, the self attention of a decoder needs no mask. Throws ArgumentError like its layers,
// and for other numbers of inputs.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t size, std::int64_t heads,
                          TransformerLayerOptions options = {});

  Tensors forward_all(const Tensors& inputs) override;

 private:
  TransformerLayerOptions options_;
  MultiHeadAttention self_attn_;
  MultiHeadAttention multihead_attn_;
  Linear linear1_;
  Linear linear2_;
  LayerNorm norm1_;
  LayerNorm norm2_;
  LayerNorm norm3_;
};

}  // namespace mezzo::nn
