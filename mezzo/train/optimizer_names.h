// The names of a run's optimizers in options and messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mezzo/train/run_options.h"

namespace mezzo::train {

const char* name_of(OptimizerKind kind);  // `sgd`, `adam`, `adamw`
std::optional<OptimizerKind> parse_optimizer(std::string_view name);
// `sgd, adam and adamw`, for messages.
std::string optimizer_names();

}  // namespace mezzo::train
