#include "mezzo/nn/transformer.h"

#include "mezzo/nn/optional_input.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/relu.h"

namespace mezzo::nn {
namespace {

Tensor activated(const Tensor& x, FeedForwardActivation activation) {
  switch (activation) {
    case FeedForwardActivation::kRelu: return relu(x);
    case FeedForwardActivation::kGelu: return gelu(x);
    case FeedForwardActivation::kGeluTanh: break;
  }
  return gelu(x, GeluForm::kTanh);
}

// How branches join the residual stream.
struct Stream {
  double dropout = 0;
  bool norm_first = false;

  // `branch` computes from the stream, or from its norm.
  template <class Branch>
  Tensor add(const Tensor& x, LayerNorm& norm, const Branch& branch) const {
    if (norm_first) return add_residual(x, dropped(branch(norm(x))));
    return norm(add_residual(x, dropped(branch(x))));
  }

  Tensor dropped(const Tensor& x) const { return mezzo::dropout(x, dropout, dropout > 0); }
};

Stream stream_of(const TransformerLayerOptions& options, bool is_training) {
  return {.dropout = is_training ? options.dropout : 0, .norm_first = options.norm_first};
}

// The two linear layers.
Tensor feed_forward(const Tensor& x, Linear& linear1, Linear& linear2,
                    FeedForwardActivation activation, const Stream& stream) {
  return linear2(stream.dropped(activated(linear1(x), activation)));
}

MultiHeadAttentionOptions attention_options(const TransformerLayerOptions& options, bool causal) {
  return {.bias = options.bias, .dropout = options.dropout, .causal = causal};
}

Tensor self_attention(MultiHeadAttention& attention, const Tensor& x, const Tensor& key_mask,
                      const Tensor& mask) {
  if (!key_mask.defined() && !mask.defined()) return attention(x);
  return attention(Tensors{x, x, x, key_mask, mask}).front();
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t size, std::int64_t heads,
                                                 TransformerLayerOptions options)
    : options_(options),
      self_attn_(size, heads, attention_options(options, options.causal)),
      linear1_(size, options.feedforward, options.bias),
      linear2_(options.feedforward, size, options.bias),
      norm1_(size, {.eps = options.eps}),
      norm2_(size, {.eps = options.eps}) {
  add("self_attn", self_attn_);
  add("linear1", linear1_);
  add("linear2", linear2_);
  add("norm1", norm1_);
  add("norm2", norm2_);
}

Tensor TransformerEncoderLayer::forward(const Tensor& x) { return run_layer(x, {}, {}); }

Tensors TransformerEncoderLayer::forward_all(const Tensors& inputs) {
  check_arg(!inputs.empty() && inputs.size() <= 3 && inputs[0].defined(), "TransformerEncoderLayer",
            "the inputs are x, key_mask and mask, of which the masks may be left out; there are ",
            inputs.size());
  return {run_layer(inputs[0], input_or_none(inputs, 1), input_or_none(inputs, 2))};
}

Tensor TransformerEncoderLayer::run_layer(const Tensor& x, const Tensor& key_mask,
                                          const Tensor& mask) {
  const Stream stream = stream_of(options_, is_training());
  const Tensor attended = stream.add(
      x, norm1_, [&](const Tensor& y) { return self_attention(self_attn_, y, key_mask, mask); });
  return stream.add(attended, norm2_, [&](const Tensor& y) {
    return feed_forward(y, linear1_, linear2_, options_.activation, stream);
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t size, std::int64_t heads,
                                                 TransformerLayerOptions options)
    : options_(options),
      self_attn_(size, heads, attention_options(options, options.causal)),
      multihead_attn_(size, heads, attention_options(options, false)),
      linear1_(size, options.feedforward, options.bias),
      linear2_(options.feedforward, size, options.bias),
      norm1_(size, {.eps = options.eps}),
      norm2_(size, {.eps = options.eps}),
      norm3_(size, {.eps = options.eps}) {
  add("self_attn", self_attn_);
  add("multihead_attn", multihead_attn_);
  add("linear1", linear1_);
  add("linear2", linear2_);
  add("norm1", norm1_);
  add("norm2", norm2_);
  add("norm3", norm3_);
}

Tensors TransformerDecoderLayer::forward_all(const Tensors& inputs) {
  constexpr std::size_t kMost = 6;
  check_arg(
      inputs.size() >= 2 && inputs.size() <= kMost && inputs[0].defined() && inputs[1].defined(),
      "TransformerDecoderLayer",
      "the inputs are x, memory, key_mask, mask, memory_key_mask and memory_mask, of which "
      "the masks may be left out; there are ",
      inputs.size());
  const Tensor& memory = inputs[1];
  const Stream stream = stream_of(options_, is_training());
  const Tensor own = stream.add(inputs[0], norm1_, [&](const Tensor& y) {
    return self_attention(self_attn_, y, input_or_none(inputs, 2), input_or_none(inputs, 3));
  });
  const Tensor joined = stream.add(own, norm2_, [&](const Tensor& y) {
    return multihead_attn_(
               Tensors{y, memory, memory, input_or_none(inputs, 4), input_or_none(inputs, 5)})
        .front();
  });
  return {stream.add(joined, norm3_, [&](const Tensor& y) {
    return feed_forward(y, linear1_, linear2_, options_.activation, stream);
  })};
}

}  // namespace mezzo::nn
