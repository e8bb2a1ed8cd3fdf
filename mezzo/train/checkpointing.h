// What of a training run a checkpoint holds, and when one is written.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/data/loader.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::train {

// Everything that a step depends on, besides default_generator().
struct TrainingState {
  nn::Module& net;
  optim::Optimizer& optimizer;
  amp::GradScaler& scaler;
  data::DataLoader& loader;
};

// Parameters, buffers, the optimizer's state, the scaler with its counters, the place in the data
// and in the random stream. Values of the caller's own go into `values` of the result.
io::Checkpoint capture(const TrainingState& state, std::int64_t step);

// Puts all of that back: what follows is bit for bit what would have followed. Throws FileError if
// the checkpoint is that of another program, ArgumentError if it does not fit the network or the
// optimizer.
void restore(const TrainingState& state, const io::Checkpoint& checkpoint);

struct CheckpointingOptions {
  std::string folder{};    // empty: no checkpoints
  std::int64_t every = 0;  // steps; 0: after each epoch
  std::int64_t keep = 3;   // the newest so many stay
  bool resume = false;     // go on from the newest sound one, if there is one
};

}  // namespace mezzo::train
