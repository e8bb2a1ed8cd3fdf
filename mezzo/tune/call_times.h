// How long the operations of a step take in each dtype, forward and backward.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/tune/choice.h"
#include "mezzo/tune/step_calls.h"

namespace mezzo::tune {

// The time of each operation in one forward and backward pass of a step under the plan that is set,
// in ms: the kernels of its calls and of their gradients, without casts.
std::vector<double> operation_times(amp::TrainStep& step, const Batch& batch,
                                    const StepCalls& calls);

}  // namespace mezzo::tune
