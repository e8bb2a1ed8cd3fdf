// A table of vectors, looked up by number.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// Row x[...] of `weight` [count, size] for every i64 or i32 number in x [...]: [..., size]. The
// rows begin as standard normal numbers, as in PyTorch. Throws ArgumentError if a size is not
// positive and, when called, for a number that is not in [0, count).
class Embedding : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t size);

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

}  // namespace mezzo::nn
