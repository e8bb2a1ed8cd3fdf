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
  nn::Linear fc_{16 * 4 * 4, 40};
};

// Images [n, 2, 6, 6] to logits of 3 classes. The first and the last layer stay in 16 bits.
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
  nn::Conv2d conv_{2, 8, 3};
  nn::Conv2d pointwise_{8, 16, 1};
  EightBitBlock body_;
  nn::Linear head_{40, 3};
};

struct ImageBatch {
  Tensor images;
  Tensor labels;
};

// Equal seeds give equal batches.
inline ImageBatch image_batch(std::uint64_t seed, std::int64_t n = 8) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back((i + static_cast<std::int64_t>(seed)) % 3);
  return {randn({n, 2, 6, 6}, generator), from_values(labels, {n})};
}

inline Tensor image_loss(const Tensor& logits, const Tensor& labels) {
  return cross_entropy(logits, labels);
}

// The patterns of all elements, so that NaN and the signs of zeros count.
inline std::vector<std::uint64_t> patterns(const Tensor& tensor) {
  std::vector<std::uint64_t> bits;
  for (const double value : tensor.to_vector<double>()) {
    bits.push_back(std::bit_cast<std::uint64_t>(value));
  }
  return bits;
}

}  // namespace mezzo::test
