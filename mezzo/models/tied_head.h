// The last layer of a language model whose weight is its table of tokens.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::models {

// x [..., size] times the transpose of a table [vocabulary, size]: [..., vocabulary]. State:
// `weight`, which is the table itself, under one more name (Press and Wolf, "Using the output
// embedding to improve language models", 2017).
class TiedHead : public nn::Module {
 public:
  explicit TiedHead(const Tensor& table);

  Tensor forward(const Tensor& x) override;

 private:
  Tensor weight_;
};

}  // namespace mezzo::models
