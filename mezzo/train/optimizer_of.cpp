#include "mezzo/train/optimizer_of.h"

#include <unordered_map>

#include "mezzo/nn/freeze.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"

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

template <class Optimizer, class Options>
std::unique_ptr<optim::Optimizer> make_grouped(const Groups& params,
                                               const std::vector<RateOf>& rates,
                                               const Options& options) {
  std::vector<optim::Group<Options>> groups;
  for (const auto& group : params) groups.push_back({group, options});
  for (std::size_t i = 1; i < groups.size(); ++i) groups[i].options.lr = rates[i - 1].lr;
  return std::make_unique<Optimizer>(groups);
}

std::unique_ptr<optim::Optimizer> make_of_kind(const Groups& groups, const OptimizerOptions& o) {
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return make_grouped<optim::Sgd>(groups, o.lr_of,
                                      optim::SgdOptions{.lr = o.lr,
                                                        .momentum = o.momentum,
                                                        .weight_decay = o.weight_decay,
                                                        .nesterov = o.nesterov});
    case OptimizerKind::kAdam:
      return make_grouped<optim::Adam>(groups, o.lr_of,
                                       optim::AdamOptions{.lr = o.lr,
                                                          .beta1 = o.beta1,
                                                          .beta2 = o.beta2,
                                                          .eps = o.eps,
                                                          .weight_decay = o.weight_decay});
    case OptimizerKind::kAdamW:
      return make_grouped<optim::AdamW>(groups, o.lr_of,
                                        optim::AdamWOptions{.lr = o.lr,
                                                            .beta1 = o.beta1,
                                                            .beta2 = o.beta2,
                                                            .eps = o.eps,
                                                            .weight_decay = o.weight_decay});
  }
  return nullptr;
}

}  // namespace

void GroupedOptimizer::set_rate(double lr) const {
  for (std::size_t i = 0; i < factors.size(); ++i) optimizer->set_lr(lr * factors[i], i);
}

GroupedOptimizer make_optimizer(nn::Module& net, const OptimizerOptions& options) {
  GroupedOptimizer made{make_of_kind(groups_of(net, options.lr_of), options), {1}};
  for (const RateOf& rate : options.lr_of) made.factors.push_back(rate.lr / options.lr);
  return made;
}

std::string describe(const OptimizerOptions& options) {
  std::string text;
  if (options.kind == OptimizerKind::kSgd) {
    text = concat("SGD, momentum ", options.momentum, options.nesterov ? " (Nesterov's)" : "");
  } else {
    text = concat(options.kind == OptimizerKind::kAdam ? "Adam" : "AdamW", ", betas ",
                  options.beta1, " and ", options.beta2, ", eps ", options.eps);
  }
  if (options.weight_decay > 0) text += concat(", decay ", options.weight_decay);
  if (options.accumulate > 1) text += concat(", batches in ", options.accumulate, " parts");
  if (options.clip.has_value()) text += concat(", gradients clipped to ", *options.clip);
  for (const RateOf& rate : options.lr_of) {
    text += concat(", rate of ", rate.pattern, " ", rate.lr);
  }
  return text;
}

}  // namespace mezzo::train
