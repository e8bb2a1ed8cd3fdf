// A table of vectors, looked up by index.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// Row x[...] of the f32 `weight` [count, size] for every index in x [...]: [..., size]. The rows
// begin as standard normal numbers, as in PyTorch. Throws ArgumentError if a size is not positive
// and, when called, unless x is i64, of rank at most 5 and in [0, count).
class Embedding : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t size);

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

}  // namespace mezzo::nn
