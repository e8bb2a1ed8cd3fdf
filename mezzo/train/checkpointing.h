// The contents of a training checkpoint, and how they are restored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/io/checkpoint.h"

namespace mezzo::train {

// The group of tensors in a checkpoint that holds the network's state().
inline constexpr const char* kModelGroup = "model";

// Everything that a step depends on, except default_generator().
struct TrainingState {
  amp::TrainStep& step;  // with its network, optimizer and scaler
  data::BatchSource& loader;
};

// Captures parameters, buffers, the optimizer's state and counters, the scaler with its counters,
// and the positions in the data and in the random stream. The caller may add to `values` of the
// result.
io::Checkpoint capture(const TrainingState& state, std::int64_t step);

// Restores all of that: the training continues bit for bit as it would have. Throws FileError if
// the checkpoint belongs to another program. Throws ArgumentError if it does not match the network,
// the optimizer (its kind and its number of parameters), or the loader (its images, batch size,
// order and seed). If it throws, everything stays as it was.
void restore(const TrainingState& state, const io::Checkpoint& checkpoint);

// The parameters and buffers in a safetensors file, in a file of torch.save(), in a checkpoint, or
// in the newest sound checkpoint of a folder. The first bytes of a file say which it is, not its
// name. From a checkpoint it takes those that were evaluated: averages if the training had an
// ExponentialMovingAverage. Throws FileError if `path` is none of these.
std::vector<NamedTensor> read_weights(const std::string& path);

}  // namespace mezzo::train
