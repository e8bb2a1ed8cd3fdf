// Random training steps, for tests that run the same step in two ways.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::graph {

struct RandomStepOptions {
  std::uint64_t seed = 0;
  int calls = 24;      // in the forward pass; some are two or three operations
  bool mixed = false;  // with mixed-precision regions and explicit casts
  // The same calls, with regions disabled and explicit casts to f32.
  bool widened = false;
};

// A forward pass over matrices [6, 8] and images [6, 8, 3, 3], a loss, its gradients and an update.
// The same seed gives the same step and the same initial parameters.
class RandomStep {
 public:
  explicit RandomStep(const RandomStepOptions& options);

  // Takes the result of batch(). Returns the loss, intermediate values, and the gradients.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);

  // A matrix, an image, and labels [6].
  static std::vector<Tensor> batch(std::uint64_t seed);
  // Parameters and running statistics.
  std::vector<Tensor> state() const;

 private:
  std::vector<Tensor> parameters() const;

  RandomStepOptions options_;
  std::vector<Tensor> own_;  // parameters that belong to no module
  nn::BatchNorm2d norm_{8};
  nn::BatchNorm1d matrix_norm_{8};
  optim::Sgd sgd_;
};

}  // namespace mezzo::graph
