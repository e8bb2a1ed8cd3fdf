#include "mezzo/models/vit_encoder.h"

#include "mezzo/models/stream.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dropout.h"

namespace mezzo::models {
namespace {

constexpr double kVitEps = 1e-6;

void emplace_vit_linear(nn::Sequential& layers, std::int64_t in, std::int64_t out) {
  const auto& layer = layers.emplace<nn::Linear>(in, out);
  nn::init::xavier_uniform(layer.weight());
  nn::init::normal(layer.bias(), 0, 1e-6);
}

}  // namespace

VitBlock::VitBlock(const VitOptions& options)
    : dropout_(options.dropout),
      ln_1_(options.width, {.eps = kVitEps}),
      self_attention_(options.width, options.heads, {.dropout = options.attention_dropout}),
      ln_2_(options.width, {.eps = kVitEps}) {
  emplace_vit_linear(mlp_, options.width, options.hidden);
  mlp_.emplace<nn::GELU>();
  mlp_.emplace<nn::Dropout>(options.dropout);
  emplace_vit_linear(mlp_, options.hidden, options.width);
  mlp_.emplace<nn::Dropout>(options.dropout);
  add("ln_1", ln_1_);
  add("self_attention", self_attention_);
  add("ln_2", ln_2_);
  add("mlp", mlp_);
}

Tensor VitBlock::forward(const Tensor& x) {
  const Tensor branch = dropout(self_attention_(ln_1_(x)), dropout_, is_training());
  const Tensor attended = add_residual(x, branch);
  return add_residual(attended, mlp_(ln_2_(attended)));
}

VitBlocks::VitBlocks(const VitOptions& options) {
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(std::make_unique<VitBlock>(options));
    add(concat("encoder_layer_", i), *blocks_.back());
  }
}

Tensor VitBlocks::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& block : blocks_) y = (*block)(y);
  return y;
}

VitEncoder::VitEncoder(std::int64_t tokens, const VitOptions& options)
    : dropout_(options.dropout),
      pos_embedding_(empty({1, tokens, options.width})),
      layers_(options),
      ln_(options.width, {.eps = kVitEps}) {
  nn::init::normal(pos_embedding_, 0, 0.02);
  add_parameter("pos_embedding", pos_embedding_);
  add("layers", layers_);
  add("ln", ln_);
}

Tensor VitEncoder::forward(const Tensor& x) {
  const Tensor placed = add_residual(x, pos_embedding_);
  return ln_(layers_(drop_stream(placed, dropout_, is_training())));
}

}  // namespace mezzo::models
