// The optimizers of runs: a row for each.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "mezzo/optim/adam.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::train {

enum class OptimizerKind : std::uint8_t { kSgd, kAdam, kAdamW, kLion, kRmsProp };

// A row. An optimizer reads those settings of OptimizerOptions that are members of its options,
// too, and their defaults are those of a run.
template <class OptimizerType, class OptionsType>
struct OptimizerRow {
  using Optimizer = OptimizerType;  // made of a vector of optim::Group<Options>
  using Options = OptionsType;

  OptimizerKind kind;
  const char* name;                  // in the command
  const char* title;                 // in reports
  std::optional<double> momentum{};  // the default in runs, if it is not that of Options
};

// The table, in the order of the kinds. It is read by info_of() and by make_optimizer(). They are
// in two files, so that what knows the names of optimizers need not be linked with all of them.
inline constexpr std::tuple kOptimizerTable{
    OptimizerRow<optim::Sgd, optim::SgdOptions>{OptimizerKind::kSgd, "sgd", "SGD", 0.9},
    OptimizerRow<optim::Adam, optim::AdamOptions>{OptimizerKind::kAdam, "adam", "Adam"},
    OptimizerRow<optim::AdamW, optim::AdamWOptions>{OptimizerKind::kAdamW, "adamw", "AdamW"},
    OptimizerRow<optim::Lion, optim::LionOptions>{OptimizerKind::kLion, "lion", "Lion"},
    OptimizerRow<optim::RmsProp, optim::RmsPropOptions>{OptimizerKind::kRmsProp, "rmsprop",
                                                        "RMSprop"},
};

}  // namespace mezzo::train
