// mezzo plan --graph: shows what graph mode makes of a model's training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/options.h"
#include "mezzo/nn/module.h"

namespace mezzo::cli {

struct PlanOptions : SharedOptions {
  std::optional<std::int64_t> batch_size{};
  bool wide = false;  // as in plan_table()
  std::string dot{};  // output files
  std::string text{};
};

// The numbers of frozen parameters and batch norms, as fields of an event.
Json frozen_fields(nn::Module& net);
// Prints a line about frozen parts of the network, if there are any.
void print_frozen(nn::Module& net);

// Captures a step as `mezzo train --graph` does, without computing anything. Prints and writes what
// the options request.
void run_plan_graph(const PlanOptions& options);

}  // namespace mezzo::cli
