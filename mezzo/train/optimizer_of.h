// The optimizer of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// An optimizer with its groups of parameters, and their rates.
struct GroupedOptimizer {
  std::unique_ptr<optim::Optimizer> optimizer;
  // What the rate of each group is in terms of that of the run: 1 for the first.
  std::vector<double> factors;

  // Sets the rate of every group for a rate of the run. That of a group keeps its proportion.
  void set_rate(double lr) const;
};

// The optimizer that the options name, of the network's trainable parameters: those that no pattern
// of lr_of names first, then a group for each pattern. A parameter that several patterns name
// belongs to the last of them. Throws ArgumentError for a pattern that names no parameter of its
// own to train, and for settings that the optimizer refuses.
GroupedOptimizer make_optimizer(nn::Module& net, const OptimizerOptions& options);

// `Adam, betas 0.9 and 0.999, eps 1e-08, decay 0.01`, for reports.
std::string describe(const OptimizerOptions& options);

}  // namespace mezzo::train
