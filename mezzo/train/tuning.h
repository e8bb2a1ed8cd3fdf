// Tuning the precision of a run's network: amp::tune() with the run's data, loss and optimizer.
#pragma once

#include <memory>

#include "mezzo/train/data_pair.h"
#include "mezzo/train/run_options.h"
#include "mezzo/tune/tune.h"

namespace mezzo::train {

// Tunes the network of a run on the first batches of its training data; its level and its rules do
// not count. Where f64 takes no longer than some seconds, gradients are compared with those of the
// network in f64, else with f32 by direct sums. Fills in what `options` leave to the run: the name
// of the model, graph mode, and the exact gradients. Throws what amp::tune() and train::run()
// throw for their options.
tune::TuneResult tune_run(const RunOptions& run, const DataPair& data, tune::TuneOptions options);

}  // namespace mezzo::train
