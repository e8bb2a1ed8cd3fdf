// A classifier of texts: an LSTM reads tokens, and a linear layer its last state.
#pragma once

#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/recurrent.h"

namespace mezzo::models {

struct TextLstmConfig {
  std::int64_t vocabulary = 10000;
  std::int64_t embedding = 128;  // values per token
  std::int64_t hidden = 256;
  std::int64_t layers = 2;
  bool bidirectional = false;
  double dropout = 0;  // between the layers, and before the classifier
  std::int64_t num_classes = 2;
};

// tokens [n, t], i64, give logits [n, num_classes]. Called with the lengths [n] of sequences of
// several lengths, net({tokens, lengths}), it reads the state after the last token of each; what
// follows must be tokens of the vocabulary, too, and has no influence. With two directions, the
// classifier sees the last state of both: the second one has read the text from its end.
class TextLstm : public nn::Module {
 public:
  explicit TextLstm(const TextLstmConfig& config = {});

  Tensor forward(const Tensor& tokens) override;
  // {tokens} or {tokens, lengths}; {logits}.
  nn::Tensors forward_all(const nn::Tensors& inputs) override;

 private:
  nn::Embedding embedding_;
  nn::Lstm lstm_;
  nn::Dropout dropout_;
  nn::Linear fc_;
};

}  // namespace mezzo::models
