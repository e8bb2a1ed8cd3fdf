#include "mezzo/train/optimizer_of.h"

#include <unordered_map>
#include <utility>

#include "mezzo/nn/freeze.h"
#include "mezzo/optim/decay_groups.h"
#include "mezzo/train/optimizer_names.h"

namespace mezzo::train {
namespace {

using Groups = std::vector<std::vector<Tensor>>;

// The group of each parameter, 0 if no pattern names it.
Groups groups_of(nn::Module& net, const std::vector<RateOf>& rates) {
  std::unordered_map<const TensorImpl*, std::size_t> group;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    for (const NamedTensor& entry : nn::parameters_matching(net, rates[i].pattern, "--lr-of")) {
      group[entry.tensor.impl()] = i + 1;
    }
  }
  Groups groups(rates.size() + 1);
  for (const Tensor& parameter : nn::trainable_parameters(net)) {
    const auto found = group.find(parameter.impl());
    groups[found != group.end() ? found->second : 0].push_back(parameter);
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    check_arg(!groups[i + 1].empty(), "--lr-of", "`", rates[i].pattern,
              "` has nothing to train: its parameters are frozen, or matched by a later pattern, "
              "too. Leave it out");
  }
  return groups;
}

// The settings that the optimizer reads; its other options keep their defaults.
template <class Options>
Options options_from(const OptimizerOptions& said) {
  Options options;
  options.lr = said.lr;
  options.weight_decay = said.weight_decay;
  options.state_dtype = said.state_dtype;
  if constexpr (requires { options.momentum; }) options.momentum = said.momentum;
  if constexpr (requires { options.nesterov; }) options.nesterov = said.nesterov;
  if constexpr (requires { options.beta1; }) {
    options.beta1 = said.beta1;
    options.beta2 = said.beta2;
  }
  if constexpr (requires { options.eps; }) options.eps = said.eps;
  return options;
}

// The number of groups of the optimizer that a group of one rate becomes.
std::size_t parts_of(const std::vector<Tensor>& params, const OptimizerOptions& said) {
  if (!said.decay_matrices || params.empty()) return 1;
  return optim::decay_groups(params, optim::SgdOptions()).size();
}

template <class Row>
std::unique_ptr<optim::Optimizer> make_of_row(const Row& /*row*/, const Groups& params,
                                              const OptimizerOptions& said) {
  using Options = typename Row::Options;
  std::vector<optim::Group<Options>> groups;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Options options = options_from<Options>(said);
    if (i > 0) options.lr = said.lr_of[i - 1].lr;
    // The first group holds the rate of the run even if it is empty.
    if (!said.decay_matrices || params[i].empty()) {
      groups.push_back({params[i], std::move(options)});
      continue;
    }
    for (optim::Group<Options>& part : optim::decay_groups(params[i], options)) {
      groups.push_back(std::move(part));
    }
  }
  return std::make_unique<typename Row::Optimizer>(groups);
}

// The rate of each group of the optimizer, as a part of the run's.
std::vector<double> factors_of(const Groups& groups, const OptimizerOptions& options) {
  std::vector<double> factors;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double factor = i == 0 ? 1 : options.lr_of[i - 1].lr / options.lr;
    factors.insert(factors.end(), parts_of(groups[i], options), factor);
  }
  return factors;
}

std::unique_ptr<optim::Optimizer> make_of_kind(const Groups& groups, const OptimizerOptions& said) {
  std::unique_ptr<optim::Optimizer> made;
  const auto make_if_meant = [&](const auto& row) {
    if (row.kind == said.kind) made = make_of_row(row, groups, said);
  };
  std::apply([&](const auto&... rows) { (make_if_meant(rows), ...); }, kOptimizerTable);
  return made;
}

}  // namespace

void GroupedOptimizer::set_rate(double lr) const {
  for (std::size_t i = 0; i < factors.size(); ++i) optimizer->set_lr(lr * factors[i], i);
}

GroupedOptimizer make_optimizer(nn::Module& net, const OptimizerOptions& options) {
  const Groups groups = groups_of(net, options.lr_of);
  return {make_of_kind(groups, options), factors_of(groups, options)};
  // The analyzer does not follow the pointer through std::apply().
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)

std::string describe(const OptimizerOptions& options) {
  const OptimizerInfo& info = info_of(options.kind);
  std::string text = info.title;
  if (info.momentum.has_value()) text += concat(", momentum ", options.momentum);
  if (info.nesterov.has_value() && options.nesterov) text += " (Nesterov's)";
  if (info.betas.has_value()) text += concat(", betas ", options.beta1, " and ", options.beta2);
  if (info.eps.has_value()) text += concat(", eps ", options.eps);
  if (options.weight_decay > 0) text += concat(", decay ", options.weight_decay);
  if (options.decay_matrices) text += " of matrices";
  if (options.state_dtype != DType::kF32) text += concat(", state in ", options.state_dtype);
  if (options.accumulate > 1) text += concat(", batches in ", options.accumulate, " parts");
  if (options.clip.has_value()) text += concat(", gradients clipped to ", *options.clip);
  for (const RateOf& rate : options.lr_of) {
    text += concat(", rate of ", rate.pattern, " ", rate.lr);
  }
  return text;
}

}  // namespace mezzo::train
