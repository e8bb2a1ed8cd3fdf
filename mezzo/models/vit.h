// Vision transformers.
#pragma once

#include <memory>

#include "mezzo/models/model.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"

namespace mezzo::models {

class VitEncoder;

// The sizes of a vision transformer; those of vit_b_16 by default.
struct VitOptions {
  std::int64_t patch = 16;  // height and width of a patch in pixels
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t hidden = 3072;    // features between the linear layers of a block
  double dropout = 0;            // of the embeddings, the activation and the branches
  double attention_dropout = 0;  // of probabilities

  static VitOptions base();   // vit_b_16
  static VitOptions small();  // vit_s_16: 6 heads, width 384
  static VitOptions tiny();   // vit_ti_16: 3 heads, width 192
};

// Dosovitskiy et al.: "An image is worth 16x16 words: transformers for image recognition at scale",
// 2020; the small sizes are those of Touvron et al.: "Training data-efficient image transformers
// and distillation through attention", 2020. A convolution makes a token of each patch; the first
// token is trained, and its result is classified. Structure, eps 1e-6 of the norms and initial
// values are torchvision's; the last layer begins as 0.
//
// The residual stream is f32 at O2, as in Gpt.
//
// State, as in torchvision: `class_token`, `conv_proj.*`, `encoder.pos_embedding`,
// `encoder.layers.encoder_layer_0.ln_1.*`, `.self_attention.*` (of nn::MultiHeadAttention),
// `.ln_2.*`, `.mlp.0.*`, `.mlp.3.*`, `encoder.ln.*`, `heads.head.*`.
class Vit : public nn::Module {
 public:
  // Throws ArgumentError unless the image size is a multiple of the patch, and for sizes that
  // nn::MultiHeadAttention does not take.
  explicit Vit(const ModelConfig& config, VitOptions options = {});
  ~Vit() override;

  // x: [n, in_channels, image_size, image_size]; the logits [n, num_classes].
  Tensor forward(const Tensor& x) override;

 private:
  // The last layer, under torchvision's name `heads.head`.
  class Heads;

  Shape image_;  // [in_channels, image_size, image_size]
  Tensor class_token_;
  nn::Conv2d conv_proj_;
  std::unique_ptr<VitEncoder> encoder_;
  std::unique_ptr<Heads> heads_;
};

}  // namespace mezzo::models
