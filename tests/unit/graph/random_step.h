// Training steps made up by chance, for tests that run the same step in two ways.
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
  int calls = 24;      // of the forward pass; some are two or three operations
  bool mixed = false;  // with regions of mixed precision and casts by hand
  // The same calls, where regions are disabled and casts by hand give f32.
  bool widened = false;
};

// A forward pass over matrices [6, 8] and images [6, 8, 3, 3], a loss, its gradients and an update.
// The same seed makes the same step, and the same parameters to begin with.
class RandomStep {
 public:
  explicit RandomStep(const RandomStepOptions& options);

  // Takes what batch() gives. Returns the loss, values on the way, and the gradients.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);

  // A matrix, an image, labels [6].
  static std::vector<Tensor> batch(std::uint64_t seed);
  // Parameters and running statistics.
  std::vector<Tensor> state() const;

 private:
  std::vector<Tensor> parameters() const;

  RandomStepOptions options_;
  std::vector<Tensor> own_;  // those of no module
  nn::BatchNorm2d norm_{8};
  nn::BatchNorm1d matrix_norm_{8};
  optim::Sgd sgd_;
};

}  // namespace mezzo::graph
