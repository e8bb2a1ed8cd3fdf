#include "mezzo/train/optimizer_names.h"

#include <array>

#include "mezzo/core/error.h"

namespace mezzo::train {
namespace {

template <class Row>
OptimizerInfo info_from(const Row& row) {
  const typename Row::Options usual;
  OptimizerInfo info{.kind = row.kind,
                     .name = row.name,
                     .title = row.title,
                     .lr = usual.lr.at(0),
                     .weight_decay = usual.weight_decay};
  if constexpr (requires { usual.momentum; }) {
    info.momentum = row.momentum.value_or(usual.momentum);
  }
  if constexpr (requires { usual.nesterov; }) info.nesterov = usual.nesterov;
  if constexpr (requires { usual.beta1; }) info.betas = {usual.beta1, usual.beta2};
  if constexpr (requires { usual.eps; }) info.eps = usual.eps;
  return info;
}

}  // namespace

std::span<const OptimizerInfo> optimizers() {
  static const auto all = std::apply(
      [](const auto&... rows) { return std::array{info_from(rows)...}; }, kOptimizerTable);
  return all;
}

const OptimizerInfo& info_of(OptimizerKind kind) {
  return optimizers()[static_cast<std::size_t>(kind)];
}

const char* name_of(OptimizerKind kind) { return info_of(kind).name; }

std::optional<OptimizerKind> parse_optimizer(std::string_view name) {
  for (const OptimizerInfo& info : optimizers()) {
    if (name == info.name) return info.kind;
  }
  return std::nullopt;
}

std::string optimizer_names(const std::function<bool(const OptimizerInfo&)>& is_meant) {
  std::vector<const char*> names;
  for (const OptimizerInfo& info : optimizers()) {
    if (is_meant(info)) names.push_back(info.name);
  }
  std::string text;
  for (const char* name : names) {
    const bool is_last = name == names.back();
    text += concat(text.empty() ? "" : (is_last ? " and " : ", "), name);
  }
  return text;
}

OptimizerOptions usual_options(OptimizerKind kind) {
  const OptimizerInfo& info = info_of(kind);
  OptimizerOptions options{.kind = kind, .lr = info.lr, .weight_decay = info.weight_decay};
  options.momentum = info.momentum.value_or(options.momentum);
  options.nesterov = info.nesterov.value_or(options.nesterov);
  if (info.betas.has_value()) std::tie(options.beta1, options.beta2) = *info.betas;
  options.eps = info.eps.value_or(options.eps);
  return options;
}

}  // namespace mezzo::train
