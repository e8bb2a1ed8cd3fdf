#include "mezzo/tune/step_state.h"

#include <utility>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::tune {

StepState::StepState(nn::Module& net, optim::Optimizer& optimizer)
    : optimizer_(optimizer),
      counters_(optimizer.counters()),
      random_(default_generator().position()) {
  for (const NamedTensor& entry : net.state()) {
    tensors_.push_back({entry.tensor, copy_of(entry.tensor)});
  }
  for (const NamedTensor& entry : optimizer.state()) {
    state_.push_back({entry.name, copy_of(entry.tensor)});
  }
}

StepState::~StepState() {
  try {
    restore();
  } catch (const Error&) {
    // Only a lack of memory can prevent it, and what happened before it is the cause.
  }
}

void StepState::restore() {
  const NoGrad not_recorded;
  for (const Copy& tensor : tensors_) copy_elements(tensor.copy, tensor.own);
  optimizer_.clear_state();
  for (const NamedTensor& entry : state_) optimizer_.set_state(entry.name, entry.tensor);
  for (const optim::NamedCounter& counter : counters_) {
    optimizer_.set_counter(counter.name, counter.value);
  }
  default_generator().set_position(random_);
}

void perturb_parameters(nn::Module& net) {
  constexpr float kFactor = 1 + 0x1p-23F;
  const NoGrad not_recorded;
  for (const Tensor& parameter : net.parameters()) {
    if (!is_floating(parameter.dtype())) continue;
    const Tensor moved = mul(parameter.detach().astype(DType::kF32), full({}, kFactor));
    copy_elements(moved.astype(parameter.dtype()), parameter);
  }
}

}  // namespace mezzo::tune
