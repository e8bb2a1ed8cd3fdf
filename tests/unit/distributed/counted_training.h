// Trains a linear network with losses that do not count every label, divided in all ways, and
// compares with the losses and gradients of the whole batches.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/dtype.h"
#include "tests/unit/distributed/linear_oracle.h"

namespace mezzo::test {

// How the rule of a loss is given to the library.
enum class LossForm : std::uint8_t {
  kObject,   // nn::CrossEntropyLoss, nn::MseLoss
  kCounted,  // amp::CountedLoss
  kSum,      // amp::SumLoss
  kPlain,    // a function that does not say what it counts
};

struct CountedTraining {
  std::uint64_t seed = 1;  // determines data and weights
  LossRule loss{};
  LossForm form = LossForm::kObject;
  double ignored = 0.4;           // share of the labels
  bool ignores_examples = false;  // if one label of an example is ignored, all are
  DType dtype = DType::kF32;
  double loss_scale = 1;
  bool graph = false;
  int processes = 1;
  std::int64_t micro_batches = 1;
  std::int64_t batch_size = 8;  // per process
  std::int64_t eval_batch_size = 3;
  std::int64_t features = 3;
  std::int64_t classes = 4;
  std::int64_t height = 0, width = 0;  // of images with labels per pixel; 0: rows
  std::int64_t steps = 3;
};

std::string describe(const CountedTraining& training);

// Trains with Model::fit() and evaluates. Expects of every step the loss and the gradients of the
// whole batch of all processes, or that the step is skipped if nothing counts. Expects of the
// evaluation the loss of the whole set, and the same results in all processes.
void expect_whole_batches(const CountedTraining& training);

}  // namespace mezzo::test
