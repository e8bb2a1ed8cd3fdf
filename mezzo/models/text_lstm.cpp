#include "mezzo/models/text_lstm.h"

#include "mezzo/nn/optional_input.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

TextLstm::TextLstm(const TextLstmConfig& config)
    : embedding_(config.vocabulary, config.embedding),
      lstm_(config.embedding, config.hidden,
            {.layers = config.layers,
             .bidirectional = config.bidirectional,
             .dropout = config.dropout}),
      dropout_(config.dropout),
      fc_(config.hidden * lstm_.directions(), config.num_classes) {
  add("embedding", embedding_);
  add("lstm", lstm_);
  add("dropout", dropout_);
  add("fc", fc_);
}

Tensor TextLstm::forward(const Tensor& tokens) { return forward_all({tokens})[0]; }

nn::Tensors TextLstm::forward_all(const nn::Tensors& inputs) {
  check_arg(!inputs.empty() && inputs.size() <= 2, "TextLstm", "there are ", inputs.size(),
            " inputs. Give tokens, and lengths if they differ");
  const Tensor x = embedding_(inputs[0]);
  const nn::Tensors read = lstm_({x, nn::input_or_none(inputs, 1)});
  const Tensor& states = read[1];  // [layers * directions, n, hidden]
  const std::int64_t count = states.shape()[0];
  nn::Tensors last;
  for (std::int64_t i = count - lstm_.directions(); i < count; ++i) {
    last.push_back(reshape(slice(states, 0, i, i + 1), {states.shape()[1], states.shape()[2]}));
  }
  return {fc_(dropout_(last.size() == 1 ? last[0] : cat(last, 1)))};
}

}  // namespace mezzo::models
