// The attributes and the inputs of batch normalization, for its definitions and kernels.
#pragma once

#include "mezzo/distributed/process_group.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct BatchNormAttrs {
  bool training = true;  // normalise by the batch's statistics, else by given ones
  bool relu = false;     // max(y, 0) in the same kernel
  double eps = 1e-5;
  // The processes whose batches share statistics in training; null: this process alone. It is not
  // in kFields, because the text of a program cannot name it; a program that is read from text runs
  // alone.
  distributed::ProcessGroup* processes = nullptr;
  static constexpr auto kFields =
      std::tuple(Field{"training", &BatchNormAttrs::training}, Field{"relu", &BatchNormAttrs::relu},
                 Field{"eps", &BatchNormAttrs::eps});
  bool operator==(const BatchNormAttrs&) const = default;

  // Whether statistics, and sums for the gradient, are exchanged.
  bool exchanges() const { return training && distributed::process_count(processes) > 1; }
};

// OpDef::exchanges of the operations below.
inline bool batch_norm_exchanges(const Attrs& attrs) {
  return attrs.as<BatchNormAttrs>().exchanges();
}

// Inputs of batch_norm and batch_norm_add_relu. Only the latter has a residual.
struct BatchNormInput {
  enum : std::size_t { kX, kWeight, kBias, kRunningMean, kRunningVar, kResidual };
};

// Inputs of batch_norm_grad. If a residual was added, either it or the result y is given; otherwise
// both are absent. With either, a second gradient may be given, from another reader of the result;
// it is added to the first one.
struct BatchNormGradInput {
  enum : std::size_t { kGrad, kX, kWeight, kBias, kMean, kVar, kY, kOtherGrad, kResidual };
};

}  // namespace mezzo
