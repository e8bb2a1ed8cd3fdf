#include "mezzo/train/optimizer_names.h"

#include "mezzo/core/error.h"
#include "mezzo/optim/adam.h"

namespace mezzo::train {
namespace {

constexpr OptimizerKind kOptimizerKinds[] = {OptimizerKind::kSgd, OptimizerKind::kAdam,
                                             OptimizerKind::kAdamW};

}  // namespace

const char* name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
  }
  return "";
}

std::optional<OptimizerKind> parse_optimizer(std::string_view name) {
  for (const OptimizerKind kind : kOptimizerKinds) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

std::string optimizer_names() {
  std::string names;
  for (const OptimizerKind kind : kOptimizerKinds) {
    const bool is_last = kind == OptimizerKind::kAdamW;
    names += concat(names.empty() ? "" : (is_last ? " and " : ", "), name_of(kind));
  }
  return names;
}

OptimizerOptions usual_options(OptimizerKind kind) {
  OptimizerOptions options{.kind = kind};
  if (kind == OptimizerKind::kSgd) return options;
  options.lr = optim::AdamOptions{}.lr.at(0);
  options.weight_decay = kind == OptimizerKind::kAdamW ? optim::AdamWOptions{}.weight_decay
                                                       : optim::AdamOptions{}.weight_decay;
  return options;
}

}  // namespace mezzo::train
