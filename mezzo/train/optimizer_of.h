// Creates the optimizer of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// An optimizer with its parameter groups, and their learning rates.
struct GroupedOptimizer {
  std::unique_ptr<optim::Optimizer> optimizer;
  // The rate of each group relative to that of the run: 1 for the first.
  std::vector<double> factors;

  // Sets the rate of every group from the run's rate, keeping each group's proportion.
  void set_rate(double lr) const;
};

// The optimizer that the options name, for the network's trainable parameters. The first group
// holds those that no pattern of lr_of names, followed by a group for each pattern. A parameter
// that several patterns name belongs to the last of them. With decay_matrices, each group is two:
// that of its matrices, and that of what does not decay, unless it has but one of them. Throws
// ArgumentError for a pattern that is left without trainable parameters, and for settings that the
// optimizer refuses.
GroupedOptimizer make_optimizer(nn::Module& net, const OptimizerOptions& options);

// `Lion, betas 0.9 and 0.99, decay 0.01`, for reports.
std::string describe(const OptimizerOptions& options);

}  // namespace mezzo::train
