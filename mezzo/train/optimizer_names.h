// What options and messages say of a run's optimizers: their names, and the settings that they
// read. All of it comes from the table in optimizer_table.h.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "mezzo/train/run_options.h"

namespace mezzo::train {

// An optimizer's names and the defaults of its settings. It does not read a setting that is
// missing.
struct OptimizerInfo {
  OptimizerKind kind = OptimizerKind::kSgd;
  const char* name = "";   // in the command: `lion`
  const char* title = "";  // in reports: `Lion`
  double lr = 0;
  double weight_decay = 0;
  std::optional<double> momentum{};
  std::optional<bool> nesterov{};
  std::optional<std::pair<double, double>> betas{};
  std::optional<double> eps{};
};

// All optimizers, in the order of their kinds.
std::span<const OptimizerInfo> optimizers();
const OptimizerInfo& info_of(OptimizerKind kind);

const char* name_of(OptimizerKind kind);  // `sgd`, `lion`
std::optional<OptimizerKind> parse_optimizer(std::string_view name);
// `sgd, lion and rmsprop`: all names, for messages, or those of the optimizers that `is_meant`
// picks.
std::string optimizer_names(const std::function<bool(const OptimizerInfo&)>& is_meant =
                                [](const auto&) { return true; });

}  // namespace mezzo::train
