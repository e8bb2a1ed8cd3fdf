// How long the operations of a step take in each dtype, forward and backward.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/tune/choice.h"
#include "mezzo/tune/step_calls.h"

namespace mezzo::tune {

// The time of each operation in a step under a plan, in ms: the kernels of its calls and of their
// gradients, without casts. Of `passes` forward and backward passes, after one that is not timed,
// the shortest time of each. The plan must have been set.
std::vector<double> operation_times(amp::TrainStep& step, const Batch& batch,
                                    const StepCalls& calls, std::int64_t passes);

}  // namespace mezzo::tune
