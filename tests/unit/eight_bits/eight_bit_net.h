// A small network of which two products can have eight bits, and functions for tests of them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::test {

class EightBitBlock : public nn::Module {
 public:
  EightBitBlock() { add("fc", fc_); }
  Tensor forward(const Tensor& x) override { return relu(fc_(x)); }

 private:
  nn::Linear fc_{16 * 6 * 6, 40};
};

// Images [n, 1, 8, 8], as of amp::small_batch(), to logits of 3 classes. The first and the last
// layer stay in 16 bits.
class EightBitNet : public nn::Module {
 public:
  EightBitNet() {
    add("conv", conv_);
    add("pointwise", pointwise_);
    add("body", body_);
    add("head", head_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(pointwise_(relu(conv_(x))));
    return head_(body_(flatten(y, 1)));
  }

 private:
  nn::Conv2d conv_{1, 8, 3};
  nn::Conv2d pointwise_{8, 16, 1};
  EightBitBlock body_;
  nn::Linear head_{40, 3};
};

// The patterns of all elements, so that NaN and the signs of zeros count.
inline std::vector<std::uint64_t> patterns(const Tensor& tensor) {
  std::vector<std::uint64_t> bits;
  for (const double value : tensor.to_vector<double>()) {
    bits.push_back(std::bit_cast<std::uint64_t>(value));
  }
  return bits;
}

}  // namespace mezzo::test
