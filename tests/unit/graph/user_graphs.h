// A training as a graph, and the same as plain code.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/graph.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"

namespace mezzo::graph {

using OptionalPolicy = std::optional<amp::Policy>;

inline const amp::Batch kBatch = amp::small_batch(1);

// The initial state of two equal trainings.
struct Training {
  explicit Training(double init_scale = 1024, double max_norm = 0, bool half = false)
      : halved(half && (amp::half_parameters(net, DType::kBf16), true)),
        scaler({.init_scale = init_scale, .growth_interval = 2}) {
    if (max_norm > 0) options.max_grad_norm = max_norm;
  }

  // NaNs, which statistics become after an infinite image, as -1e300, which equals itself.
  std::vector<std::vector<double>> everything() const {
    std::vector<std::vector<double>> all = amp::everything(net, optimizer);
    for (std::vector<double>& numbers : all) {
      for (double& x : numbers) x = std::isnan(x) ? -1e300 : x;
    }
    return all;
  }

  // The same seed for all trainings.
  bool seeded = (manual_seed(5), true);
  amp::SmallNet net;
  bool halved;
  optim::Sgd optimizer{net.parameters(),
                       {.lr = std::vector<double>{0.1, 0.05, 0.02, 0.01}, .momentum = 0.9}};
  amp::GradScaler scaler;
  AddOptimizerOptions options;
};

inline Tensor loss_of(nn::Module& net, const Tensor& x, const Tensor& labels) {
  return amp::steep_loss(net(x).astype(DType::kF32), labels);
}

class TrainGraph : public Graph<Tensor(Tensor, Tensor)> {
 public:
  explicit TrainGraph(Training& training, const OptionalPolicy& policy = std::nullopt)
      : net_(training.net) {
    add_module(training.net);
    add_optimizer(training.optimizer, training.options);
    set_grad_scaler(training.scaler);
    if (policy.has_value()) config.enable_amp(*policy);
  }
  int builds() const { return builds_; }

 private:
  Tensor build(const Tensor& x, const Tensor& labels) override {
    ++builds_;
    const Tensor loss = loss_of(net_, x, labels);
    backward(loss);
    return loss;
  }

  nn::Module& net_;
  int builds_ = 0;
};

// The loop with PyTorch's names.
inline Tensor plain_step(Training& training, const OptionalPolicy& policy, const Tensor& x,
                         const Tensor& labels) {
  Tensor loss;
  {
    const amp::Autocast region(policy.value_or(amp::Policy{}), policy.has_value());
    loss = loss_of(training.net, x, labels);
  }
  training.scaler.scale(loss).backward();
  if (training.options.max_grad_norm.has_value()) {
    training.scaler.unscale_(training.optimizer);
    optim::clip_grad_norm(training.optimizer.params(), *training.options.max_grad_norm);
  }
  training.scaler.step(training.optimizer);
  training.scaler.update();
  training.optimizer.zero_grad();
  return loss;
}

// A graph whose parts and build() come from a test.
template <class Signature>
class AnyGraph;
template <class Result, class... Inputs>
class AnyGraph<Result(Inputs...)> : public Graph<Result(Inputs...)> {
 public:
  using Build = std::function<Result(AnyGraph&, const Inputs&...)>;
  explicit AnyGraph(Build build) : build_(std::move(build)) {}
  using GraphBase::add_module;
  using GraphBase::add_optimizer;
  using GraphBase::backward;
  using GraphBase::set_grad_scaler;

 private:
  Result build(const Inputs&... inputs) override { return build_(*this, inputs...); }
  Build build_;
};
using OneInput = AnyGraph<Tensor(Tensor)>;
using TwoInputs = AnyGraph<Tensor(Tensor, Tensor)>;

}  // namespace mezzo::graph
