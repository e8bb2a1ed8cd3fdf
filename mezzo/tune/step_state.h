// Copies of what a training step changes, to begin again from the same place.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/named_tensor.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::tune {

// The parameters and buffers of a network, the state of an optimizer and the position in the random
// stream, as they are when this object is made. restore() brings them back, and so does the end of
// this object.
class StepState {
 public:
  StepState(nn::Module& net, optim::Optimizer& optimizer);
  ~StepState();
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  void restore();

 private:
  struct Copy {
    Tensor own;
    Tensor copy;
  };

  optim::Optimizer& optimizer_;
  std::vector<Copy> tensors_;
  std::vector<NamedTensor> state_;
  std::vector<optim::NamedCounter> counters_;
  RandomPosition random_;
};

// Changes every parameter by less than a rounding of f32 would, up or down.
void perturb_parameters(nn::Module& net);

}  // namespace mezzo::tune
