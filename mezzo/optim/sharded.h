// Optimizers whose work and state processes share: each keeps the state of its part of every
// parameter, updates that part, and sends it to the others. Called ZeRO-1, and ZeRO-2 where
// gradients are shared, too: Rajbhandari et al., "ZeRO: memory optimizations toward training
// trillion parameter models", SC 2020.
#pragma once

#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// This process's shard of an optimizer's work.
inline Shard shard_of(const distributed::ProcessGroup& group) {
  return {.part = group.rank(), .parts = group.size()};
}

// After a step of a sharded optimizer: every process gets the others' parts of the parameters, in
// the parameters' own dtypes. All processes must call it.
void gather_params(Optimizer& optimizer, distributed::ProcessGroup& group);

// Gives parts their elements of the whole parameters' gradients, which are dropped.
void give_gradients_to_parts(const Optimizer& optimizer);

// state() as it would be if the optimizer were not sharded, in every process. All must call it.
std::vector<NamedTensor> gathered_state(const Optimizer& optimizer,
                                        distributed::ProcessGroup& group);

}  // namespace mezzo::optim
