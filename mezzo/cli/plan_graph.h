// mezzo plan --graph: what graph mode makes of a model's training step.
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
  bool wide = false;  // as plan_table()
  std::string dot{};  // files to write
  std::string text{};
};

// How many parameters and batch norms are frozen, as fields of an event.
Json frozen_fields(nn::Module& net);
// What of the network is frozen, in a line, if anything is.
void print_frozen(nn::Module& net);

// Captures a step as `mezzo train --graph` does, computes nothing, and prints and writes what the
// options ask for.
void run_plan_graph(const PlanOptions& options);

}  // namespace mezzo::cli
