// Compares trainings whose updates run within the backward pass with others: they have the same
// bits.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/graph.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/graph/early_training.h"

namespace mezzo::graph {
namespace {

using amp::Batch;
using amp::StepPhase;
using amp::TrainStepResult;
using testing::ElementsAre;

// The state and the loss after each step. `bad`: the step with infinite images.
template <class Optimizer>
std::vector<std::vector<std::vector<double>>> states_of(EarlyTraining<Optimizer>& training,
                                                        int bad) {
  std::vector<std::vector<std::vector<double>>> states;
  for (int i = 0; i < kEarlySteps; ++i) {
    const Batch batch = early_batch(static_cast<std::uint64_t>(i));
    if (i == bad) fill(batch.images, std::numeric_limits<double>::infinity());
    const auto before = training.everything();
    const TrainStepResult result = training.step(batch.images, batch.labels);
    states.push_back(training.everything());
    EXPECT_EQ(result.skipped, i == bad);
    EXPECT_EQ(states.back() == before, i == bad);
    EXPECT_GT(result.forward_ms, 0);
    for (const Tensor& param : training.optimizer.params()) EXPECT_FALSE(param.grad().defined());
    if (i != bad) states.back().push_back({result.loss});
  }
  return states;
}

struct Case {
  amp::TrainNetworkOptions amp{};
  bool is_early = true;
  bool is_half = false;
  int bad = -1;
};

// Runs the same training in all three ways.
template <class Optimizer = optim::Sgd, class Options>
void expect_same(const Options& options, const Case& c) {
  EarlyTraining<Optimizer> eager(EarlyMode::kEagerly, options, c.amp, c.is_half);
  const auto expected = states_of(eager, c.bad);
  for (const EarlyMode how : {EarlyMode::kInTheEnd, EarlyMode::kEarly}) {
    EarlyTraining<Optimizer> training(how, options, c.amp, c.is_half);
    EXPECT_TRUE(states_of(training, c.bad) == expected);
    EXPECT_EQ(parts_of(*training.compiled) > 0, c.is_early && how == EarlyMode::kEarly);
  }
}

const amp::TrainNetworkOptions kO2{.level = "O2", .dtype = DType::kBf16};

TEST(EarlyUpdatesTraining, HasTheBitsOfOthers) {
  expect_same(kEarlySgd, {});
  expect_same(kEarlySgd, {.amp = kO2});
  expect_same(optim::SgdOptions{.lr = 0.05, .momentum = 0.8, .nesterov = true}, {.amp = kO2});
  expect_same<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 1e-2}, {.amp = kO2});
  expect_same<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}, {});
}

TEST(EarlyUpdatesTraining, OfParametersIn16Bits) {
  for (const auto rule : {optim::ParamUpdate::kMaster, optim::ParamUpdate::kKahan}) {
    expect_same(optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .param_update = rule},
                {.is_half = true});
    expect_same<optim::Adam>(optim::AdamOptions{.lr = 0.01, .param_update = rule},
                             {.is_half = true});
  }
  expect_same(optim::SgdOptions{.lr = 0.05, .param_update = optim::ParamUpdate::kStochastic},
              {.is_early = false, .is_half = true});
}

// Unlike that of parameters, the rounding of state needs no order of the updates.
TEST(EarlyUpdatesTraining, OfStateInFewerBits) {
  for (const DType dtype : {DType::kBf16, DType::kE4m3}) {
    expect_same<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .state_dtype = dtype}, {.amp = kO2});
    expect_same<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .state_dtype = dtype},
                              {.amp = kO2, .bad = 1});
    expect_same(optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .state_dtype = dtype},
                {.is_half = true});
  }
}

TEST(EarlyUpdatesTraining, OfMicroBatches) {
  amp::TrainNetworkOptions amp = kO2;
  amp.step.micro_batches = 2;
  expect_same(kEarlySgd, {.amp = amp});
  expect_same(kEarlySgd, {.amp = amp, .bad = 1});
}

TEST(EarlyUpdatesTraining, SkipsALossThatIsNotFinite) {
  expect_same(kEarlySgd, {.bad = 0});
  expect_same<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}, {.amp = kO2, .bad = 2});
}

// The update divides by a constant scale that is not checked.
TEST(EarlyUpdatesTraining, OfLossesThatAreScaledAndNotChecked) {
  for (const double scale : {128.0, 4096.0}) {
    amp::TrainNetworkOptions amp{.level = "O2", .dtype = DType::kF16};
    amp.loss_scale_manager = amp::FixedLossScaleManager(scale, false);
    expect_same(kEarlySgd, {.amp = amp});
  }
}

TEST(EarlyUpdatesTraining, IsNoneWhereGradientsAreLookedAtFirst) {
  amp::TrainNetworkOptions amp = kO2;
  amp.step.max_grad_norm = 0.5;
  expect_same(kEarlySgd, {.amp = amp, .is_early = false});
  amp = {.level = "O2", .dtype = DType::kF16};
  amp.loss_scale_manager = amp::FixedLossScaleManager(128, true);
  expect_same(kEarlySgd, {.amp = amp, .is_early = false});
}

// Statistics see the gradients of every other step, which is then another program.
TEST(EarlyUpdatesTraining, ShowsGradientsToStatistics) {
  std::vector<std::int64_t> passes;
  for (const EarlyMode how : {EarlyMode::kEagerly, EarlyMode::kEarly}) {
    manual_seed(3);
    EarlyTraining<optim::Sgd> training(how, kEarlySgd, kO2);
    amp::GradientStatistics statistics(*training.net, {.every = 2});
    training.step.scaler().set_statistics(&statistics);
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Batch batch = early_batch(i);
      statistics.begin_step(1);
      training.step(batch.images, batch.labels);
    }
    passes.push_back(statistics.total().front().passes);
  }
  EXPECT_EQ(passes[0], passes[1]);
  EXPECT_GT(passes[1], 0);
}

// Phases alternate, and the times of updates are counted in their own phase.
TEST(EarlyUpdatesTraining, TellsOfItsParts) {
  std::vector<StepPhase> phases;
  amp::TrainNetworkOptions amp;
  amp.step.on_phase = [&](StepPhase phase) { phases.push_back(phase); };
  EarlyTraining<optim::Sgd> training(EarlyMode::kEarly, kEarlySgd, amp);
  const Batch batch = early_batch(1);
  training.step(batch.images, batch.labels);
  using enum StepPhase;
  ASSERT_GE(phases.size(), 5U);
  EXPECT_THAT(std::vector(phases.begin(), phases.begin() + 3),
              ElementsAre(kForward, kBackward, kUpdate));
  EXPECT_EQ(std::ranges::count(phases, kUpdate),
            static_cast<std::ptrdiff_t>(parts_of(*training.compiled)) + 1);
  EXPECT_EQ(phases.back(), kUpdate);
}

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

// Some parameters are updated then and others not; nothing else remains of the step.
TEST(EarlyUpdatesTraining, CanGoOnBehindAnException) {
  int updates_to_go = 100;
  amp::TrainNetworkOptions amp;
  amp.step.on_phase = [&](StepPhase phase) {
    if (phase == StepPhase::kUpdate && updates_to_go-- == 0) throw Interrupted();
  };
  EarlyTraining<optim::Adam> training(EarlyMode::kEarly, optim::AdamOptions{.lr = 0.01}, amp);
  const Batch batch = early_batch(1);
  training.step(batch.images, batch.labels);
  ASSERT_GE(parts_of(*training.compiled), 2U);
  const auto counters_before = training.optimizer.counters();
  const auto before = training.everything();
  updates_to_go = 1;
  EXPECT_THROW(training.step(batch.images, batch.labels), Interrupted);
  EXPECT_FALSE(training.everything() == before);
  for (const Tensor& param : training.optimizer.params()) EXPECT_FALSE(param.grad().defined());
  const auto counters = training.optimizer.counters();
  ASSERT_EQ(counters.size(), counters_before.size());
  for (std::size_t i = 0; i < counters.size(); ++i) {
    EXPECT_EQ(counters[i].value, counters_before[i].value) << counters[i].name;
  }
  updates_to_go = 100;
  training.step(batch.images, batch.labels);
  EXPECT_EQ(training.optimizer.updates(), 2);
}

// The optimizers share some parameters, one of which has no gradient.
class TwoOptimizers : public Graph<Tensor(Tensor, Tensor)> {
 public:
  TwoOptimizers(EarlyNet& net, optim::Sgd& sgd, optim::Adam& adam) : net_(net) {
    add_module(net);
    add_optimizer(sgd);
    add_optimizer(adam);
  }

 private:
  Tensor build(const Tensor& x, const Tensor& labels) override {
    const Tensor loss = amp::class_loss(net_(x), labels);
    backward(loss);
    return loss;
  }
  EarlyNet& net_;
};

TEST(EarlyUpdatesTraining, AsAGraphOfTwoOptimizers) {
  std::vector<std::vector<std::vector<double>>> ends;
  for (const EarlyMode how : kEarlyModes) {
    manual_seed(3);
    EarlyNet net;
    const std::vector<Tensor> params = net.parameters();
    const auto middle = params.begin() + 3;
    std::vector<Tensor> first(params.begin(), middle);
    first.push_back(zeros({4}).set_requires_grad(true));
    optim::Sgd sgd(first, kEarlySgd);
    optim::Adam adam({middle, params.end()}, {.lr = 0.01});
    TwoOptimizers graph(net, sgd, adam);
    if (how == EarlyMode::kInTheEnd) graph.config.disable_pass("update_in_backward");
    for (std::uint64_t i = 0; i < kEarlySteps; ++i) {
      const Batch batch = early_batch(i);
      if (how == EarlyMode::kEagerly) {
        amp::class_loss(net(batch.images), batch.labels).backward();
        sgd.step(), adam.step();
        sgd.zero_grad(), adam.zero_grad();
        continue;
      }
      graph(batch.images, batch.labels);
      ASSERT_EQ(graph.updates().size(), 2U);
      EXPECT_TRUE(graph.updates()[0].step.stepped && graph.updates()[1].step.stepped);
    }
    ends.push_back(amp::everything(net, sgd));
    for (auto& numbers : amp::everything(net, adam)) ends.back().push_back(std::move(numbers));
    if (how == EarlyMode::kEagerly) continue;
    const auto parts = std::ranges::count_if(graph.program().nodes, &Node::is_part);
    EXPECT_EQ(parts > 0, how == EarlyMode::kEarly);
    EXPECT_TRUE(ends.back() == ends.front());
  }
}

// Readers after the backward pass see parameters before the update.
TEST(EarlyUpdatesTraining, ComesBehindOtherReaders) {
  std::vector<std::vector<double>> numbers;
  for (const EarlyMode how : kEarlyModes) {
    Generator generator(5);
    const Tensor first = randn({32, 512}, generator).set_requires_grad(true);
    const Tensor second = randn({512, 256}, generator).set_requires_grad(true);
    optim::Sgd sgd({first, second}, {.lr = 0.1});
    const Step step = [&](std::span<const Tensor> in) {
      sum(matmul(relu(matmul(in[0], first)), second)).backward();
      const NoGrad guard;
      const Tensor flat = reshape(second, {512 * 256});
      const Tensor result = affine(sum(affine(flat, 2, 1)), 3, 0);
      sgd.step();
      sgd.zero_grad();
      return std::vector<Tensor>{result};
    };
    CompileOptions options;
    if (how == EarlyMode::kInTheEnd) options.passes.disabled = {"update_in_backward"};
    CompiledStep compiled(step, options);
    std::vector<double> results;
    for (int i = 0; i < kEarlySteps; ++i) {
      const Tensor x = randn({4, 32}, generator);
      const auto now = how == EarlyMode::kEagerly ? step({&x, 1}) : compiled({&x, 1});
      results.push_back(now[0].item());
    }
    if (how == EarlyMode::kEarly) {
      EXPECT_EQ(parts_of(compiled), 1U);
    }
    numbers.push_back(results);
  }
  EXPECT_EQ(numbers[1], numbers[0]);
  EXPECT_EQ(numbers[2], numbers[0]);
}

}  // namespace
}  // namespace mezzo::graph
