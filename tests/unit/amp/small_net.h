// A small network with everything that a step can change, and functions that compare it.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

// Convolution, batch norm, ReLU and a layer of logits for 3 classes, over images [n, 1, 8, 8].
class SmallNet : public nn::Module {
 public:
  explicit SmallNet(bool norm = true) : norm_(norm) {
    add("conv", conv_);
    add("bn", bn_);
    add("fc", fc_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = conv_(x);
    return fc_(flatten(relu(norm_ ? bn_(y) : y), 1));
  }

  const Tensor& fc_bias() const { return fc_.own_parameters()[1].tensor[0]; }

 private:
  bool norm_;
  nn::Conv2d conv_{1, 4, 3};
  nn::BatchNorm2d bn_{4};
  nn::Linear fc_{4 * 6 * 6, 3};
};

struct Batch {
  Tensor images;
  Tensor labels;
};

// Equal seeds give equal batches.
inline Batch small_batch(std::uint64_t seed, std::int64_t n = 8) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back((i + static_cast<std::int64_t>(seed)) % 3);
  return {randn({n, 1, 8, 8}, generator), from_values(labels, {n})};
}

inline Tensor class_loss(const Tensor& logits, const Tensor& labels) {
  return cross_entropy(logits, labels);
}

// So steep that its gradients overflow f32 at scales from 2^116 on.
inline Tensor steep_loss(const Tensor& logits, const Tensor& labels) {
  return class_loss(logits, labels) * 4096;
}

// Everything that a step may change: parameters, buffers, the optimizer's state and its counters.
inline std::vector<std::vector<double>> everything(const nn::Module& net,
                                                   const optim::Optimizer& optimizer) {
  std::vector<std::vector<double>> result;
  for (const NamedTensor& entry : net.state()) result.push_back(entry.tensor.to_vector<double>());
  for (const NamedTensor& entry : optimizer.state()) {
    result.push_back(entry.tensor.to_vector<double>());
  }
  for (const optim::NamedCounter& counter : optimizer.counters()) {
    result.push_back({static_cast<double>(counter.value)});
  }
  return result;
}

}  // namespace mezzo::amp
