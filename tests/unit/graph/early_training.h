// Trainings of a network whose gradients are large enough for early updates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"

namespace mezzo::graph {

// The third convolution is called twice, so its weight gradient is a sum.
class EarlyNet : public nn::Module {
 public:
  EarlyNet() {
    add("first", first_), add("bn", bn_), add("second", second_), add("third", third_);
    add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(second_(relu(bn_(first_(x)))));
    return fc_(mean(relu(third_(relu(third_(y)))), {2, 3}));
  }

 private:
  nn::Conv2d first_{3, 64, 3, {.padding = 1}};
  nn::BatchNorm2d bn_{64};
  nn::Conv2d second_{64, 128, 3, {.stride = 2, .padding = 1}};
  nn::Conv2d third_{128, 128, 3, {.padding = 1}};
  nn::Linear fc_{128, 3};
};

inline amp::Batch early_batch(std::uint64_t seed, std::int64_t n = 4, std::int64_t size = 8) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back((i + static_cast<std::int64_t>(seed)) % 3);
  return {randn({n, 3, size, size}, generator), from_values(labels, {n})};
}

enum class EarlyMode { kEagerly, kInTheEnd, kEarly };
inline constexpr EarlyMode kEarlyModes[] = {EarlyMode::kEagerly, EarlyMode::kInTheEnd,
                                            EarlyMode::kEarly};

inline std::size_t parts_of(const CompiledStep& step) {
  const auto& nodes = step.latest()->program().nodes;
  return static_cast<std::size_t>(std::ranges::count_if(nodes, &Node::is_part));
}

// A training of such a network.
template <class Optimizer, class Net = EarlyNet>
struct EarlyTraining {
  template <class Options>
  EarlyTraining(EarlyMode how, const Options& options, const amp::TrainNetworkOptions& amp,
                bool is_half = false)
      : net((manual_seed(3), std::make_unique<Net>())),
        is_halved(is_half && (amp::half_parameters(*net, DType::kBf16), true)),
        optimizer(groups_of(*net, options)),
        step(amp::build_train_network(*net, amp::class_loss, optimizer, amp)) {
    if (how == EarlyMode::kEagerly) return;
    CompileOptions compile{.networks = {net.get()}, .mode = [this] { return mode; }};
    if (how == EarlyMode::kInTheEnd) compile.passes.disabled = {"update_in_backward"};
    compiled.emplace(
        [this](std::span<const Tensor> batch) {
          (*body)(batch);
          return std::vector<Tensor>{};
        },
        compile);
    step.set_execution([this](const amp::StepBody& now, const amp::StepMode& now_in,
                              std::span<const Tensor> batch) {
      body = &now;
      mode = now_in.scaling;
      (*compiled)(batch);
    });
  }

  // Two parameter groups; the second has another learning rate, which changes.
  template <class Options>
  static std::vector<optim::Group<Options>> groups_of(const nn::Module& net, Options options) {
    const std::vector<Tensor> params = net.parameters();
    const auto middle = params.begin() + static_cast<std::ptrdiff_t>(params.size() / 2);
    Options other = options;
    other.lr = std::vector<double>{0.02, 0.01, 0.03};
    return {{{params.begin(), middle}, options}, {{middle, params.end()}, other}};
  }

  std::vector<std::vector<double>> everything() const { return amp::everything(*net, optimizer); }

  std::unique_ptr<Net> net;
  bool is_halved;
  Optimizer optimizer;
  amp::TrainStep step;
  std::optional<CompiledStep> compiled;
  const amp::StepBody* body = nullptr;
  std::uint64_t mode = 0;
};

inline constexpr int kEarlySteps = 4;
inline const optim::SgdOptions kEarlySgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};

}  // namespace mezzo::graph
