#include "mezzo/models/gpt_blocks.h"

#include <cmath>

#include "mezzo/nn/heads.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/rearrange.h"

namespace mezzo::models {
namespace {

constexpr double kGptDeviation = 0.02;

void init_gpt_linear(const nn::Linear& layer, double deviation) {
  nn::init::normal(layer.weight(), 0, deviation);
  nn::init::constant(layer.bias(), 0);
}

// Each layer adds two branches to the stream, whose variance would grow with their number.
double branch_deviation(const GptOptions& options) {
  return kGptDeviation / std::sqrt(2 * static_cast<double>(options.layers));
}

}  // namespace

GptAttention::GptAttention(const GptOptions& options)
    : width_(options.width),
      heads_(options.heads),
      dropout_(options.dropout),
      c_attn_(options.width, 3 * options.width),
      c_proj_(options.width, options.width) {
  init_gpt_linear(c_attn_, kGptDeviation);
  init_gpt_linear(c_proj_, branch_deviation(options));
  add("c_attn", c_attn_);
  add("c_proj", c_proj_);
}

Tensor GptAttention::forward(const Tensor& x) { return attend(x, nullptr); }

Tensor GptAttention::after(const Tensor& x, KeyValues& earlier) {
  return run(x, [&](const Tensor& input) { return attend(input, &earlier); });
}

Tensor GptAttention::attend(const Tensor& x, KeyValues* earlier) {
  const std::vector<Tensor> thirds = split(c_attn_(x), width_, -1);
  const auto heads_of = [&](std::size_t third) { return nn::split_heads(thirds[third], heads_); };
  const double dropout = is_training() ? dropout_ : 0;
  KeyValues own;
  KeyValues& all = earlier != nullptr ? *earlier : own;
  all.append(heads_of(1), heads_of(2));
  const Tensor y = attention(heads_of(0), all.keys, all.values,
                             {.mask = all.mask, .causal = true, .dropout = dropout});
  return c_proj_(nn::merge_heads(y));
}

GptMlp::GptMlp(const GptOptions& options)
    : c_fc_(options.width, 4 * options.width), c_proj_(4 * options.width, options.width) {
  init_gpt_linear(c_fc_, kGptDeviation);
  init_gpt_linear(c_proj_, branch_deviation(options));
  add("c_fc", c_fc_);
  add("c_proj", c_proj_);
}

Tensor GptMlp::forward(const Tensor& x) { return c_proj_(gelu(c_fc_(x), GeluForm::kTanh)); }

GptBlock::GptBlock(const GptOptions& options)
    : dropout_(options.dropout),
      ln_1_(options.width, {.eps = options.eps}),
      attn_(options),
      ln_2_(options.width, {.eps = options.eps}),
      mlp_(options) {
  add("ln_1", ln_1_);
  add("attn", attn_);
  add("ln_2", ln_2_);
  add("mlp", mlp_);
}

Tensor GptBlock::forward(const Tensor& x) { return add_branches(x, nullptr); }

Tensor GptBlock::after(const Tensor& x, KeyValues& earlier) {
  return run(x, [&](const Tensor& input) { return add_branches(input, &earlier); });
}

Tensor GptBlock::add_branches(const Tensor& x, KeyValues* earlier) {
  const auto dropped = [&](const Tensor& branch) {
    return dropout(branch, dropout_, is_training());
  };
  const Tensor normed = ln_1_(x);
  const Tensor branch = earlier != nullptr ? attn_.after(normed, *earlier) : attn_(normed);
  const Tensor attended = add_residual(x, dropped(branch));
  return add_residual(attended, dropped(mlp_(ln_2_(attended))));
}

}  // namespace mezzo::models
