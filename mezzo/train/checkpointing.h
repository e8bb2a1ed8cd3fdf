// What of a training a checkpoint holds, and how it comes back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/amp/train_one_step.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/io/checkpoint.h"

namespace mezzo::train {

// The group of tensors in a checkpoint that is the network's state().
inline constexpr const char* kModelGroup = "model";

// Everything that a step depends on, besides default_generator().
struct TrainingState {
  amp::TrainOneStepWithLossScale& step;  // with its network, optimizer and scaler
  data::BatchSource& loader;
};

// Parameters, buffers, the optimizer's state and counters, the scaler with its counters, the place
// in the data and in the random stream. Values of the caller's own go into `values` of the result.
io::Checkpoint capture(const TrainingState& state, std::int64_t step);

// Puts all of that back: what follows is bit for bit what would have followed. Throws FileError if
// the checkpoint is that of another program, ArgumentError if it does not fit the network, the
// optimizer (its kind and its number of parameters), or the loader: its images, batch size, order
// and seed. What this throws leaves everything as it was.
void restore(const TrainingState& state, const io::Checkpoint& checkpoint);

// The parameters and buffers in a safetensors file, in a checkpoint, or in the newest sound
// checkpoint of a folder: of a checkpoint those that were evaluated, which are averages if the
// training had an ExponentialMovingAverage. Throws FileError if none of them is at `path`.
std::vector<NamedTensor> read_weights(const std::string& path);

}  // namespace mezzo::train
