// Tests parameter groups that are added to the optimizers of captured steps.
#include <functional>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/train_step.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/user_graphs.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

// Where steps are recorded, there is a replay before the group is added and one after.
constexpr int kSteps = 8;
constexpr int kGrownStep = 4;

// A network whose last layer is not trained at first; it may also be frozen.
struct Growing {
  explicit Growing(bool frozen = false) {
    for (Tensor& param : last()) param.set_requires_grad(!frozen);
  }

  std::vector<Tensor> first() const {
    std::vector<Tensor> params = net.parameters();
    params.resize(params.size() - 2);
    return params;
  }
  std::vector<Tensor> last() const {
    const std::vector<Tensor> params = net.parameters();
    return {params.end() - 2, params.end()};
  }
  void grow() {
    for (Tensor& param : last()) param.set_requires_grad(true);
    optimizer.add_group({last(), {.lr = 0.01, .momentum = 0.5}});
  }
  std::vector<std::vector<double>> everything() const { return amp::everything(net, optimizer); }

  bool seeded = (manual_seed(7), true);
  amp::SmallNet net;
  optim::Sgd optimizer{first(), {.lr = 0.05, .momentum = 0.9}};
};

void expect_steps_as_eager(const amp::TrainNetworkOptions& options, bool frozen, bool recorded) {
  RecorderLog log;
  Growing eager(frozen);
  Growing graphed(frozen);
  const auto step_of = [&](Growing& of) {
    return amp::build_train_network(of.net, amp::class_loss, of.optimizer, options);
  };
  amp::TrainStep eager_step = step_of(eager);
  amp::TrainStep graph_step = step_of(graphed);
  graph_step.set_execution(
      graph::captured(graphed.net, recorded ? recorded_in(log) : RecordOptions{}));
  const std::vector<float> before = eager.last()[0].to_vector<float>();
  for (int i = 0; i < kSteps; ++i) {
    if (i == kGrownStep) {
      EXPECT_EQ(eager.last()[0].to_vector<float>(), before);
      eager.grow();
      graphed.grow();
    }
    const amp::Batch batch = amp::small_batch(static_cast<std::uint64_t>(i));
    const amp::TrainStepResult expected = eager_step(batch.images, batch.labels);
    const amp::TrainStepResult result = graph_step(batch.images, batch.labels);
    EXPECT_EQ(result.loss, expected.loss) << i;
    EXPECT_EQ(result.grad_norm, expected.grad_norm) << i;
    EXPECT_FALSE(result.skipped);
    EXPECT_TRUE(graphed.everything() == eager.everything()) << i;
  }
  EXPECT_NE(eager.last()[0].to_vector<float>(), before);
  EXPECT_EQ(log.recordings > 1, recorded);
}

TEST(AddedGroup, TrainingStepsUpdateIt) {
  amp::TrainNetworkOptions clipping;
  clipping.step.max_grad_norm = 0.5;
  amp::TrainNetworkOptions scaling{.level = "O2"};
  scaling.loss_scale_manager = amp::LossScaleManager(amp::LossScaleOptions{.init_scale = 1024});
  for (const bool frozen : {false, true}) {
    for (const bool recorded : {false, true}) {
      expect_steps_as_eager({}, frozen, recorded);
      expect_steps_as_eager(clipping, frozen, recorded);
      expect_steps_as_eager(scaling, frozen, recorded);
    }
  }
}

TEST(AddedGroup, GraphsUpdateIt) {
  for (const double scale : {0.0, 1024.0}) {
    RecorderLog log;
    Growing plain;
    Growing graphed;
    amp::GradScaler scaler({.init_scale = scale > 0 ? scale : 1});
    TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
      const Tensor loss = loss_of(graphed.net, x, labels);
      self.backward(loss);
      return loss;
    });
    graph.add_module(graphed.net);
    graph.add_optimizer(graphed.optimizer);
    if (scale > 0) graph.set_grad_scaler(scaler);
    if (scale > 0) graph.config.enable_recording(recorded_in(log));
    for (int i = 0; i < kSteps; ++i) {
      if (i == kGrownStep) plain.grow();
      if (i == kGrownStep) graphed.grow();
      const amp::Batch batch = amp::small_batch(static_cast<std::uint64_t>(i));
      const Tensor loss = loss_of(plain.net, batch.images, batch.labels);
      (loss * (scale > 0 ? scale : 1)).backward();
      plain.optimizer.step(scale > 0 ? 1 / scale : 1);
      plain.net.zero_grad();
      EXPECT_EQ(graph(batch.images, batch.labels).item(), loss.item()) << i;
      EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
    }
    EXPECT_EQ(graph.programs(), 2U);
  }
}

TEST(AddedGroup, AGraphSeesThatTwoOptimizersHaveIt) {
  Growing growing;
  optim::Sgd other(growing.last(), {.lr = 0.1});
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
    const Tensor loss = loss_of(growing.net, x, labels);
    self.backward(loss);
    return loss;
  });
  graph.add_module(growing.net);
  graph.add_optimizer(growing.optimizer);
  graph.add_optimizer(other);
  graph(kBatch.images, kBatch.labels);
  growing.grow();
  EXPECT_THAT(
      message_of<ArgumentError>([&] { graph(kBatch.images, kBatch.labels); }),
      testing::HasSubstr("belongs to an optimizer that was added before. Give each its own"));
}

// compile() does not know the optimizers, but what it captured does.
void expect_refusal(Growing& growing, const std::function<void(const Tensor&)>& train,
                    const RecordOptions& record = {}) {
  CompiledStep step = compile(
      [&](std::span<const Tensor> in) {
        const Tensor loss = loss_of(growing.net, in[0], in[1]);
        train(loss);
        growing.net.zero_grad();
        return std::vector<Tensor>{loss};
      },
      {.record = record});
  const Tensor inputs[] = {kBatch.images, kBatch.labels};
  for (int i = 0; i <= kEager; ++i) step(inputs);
  const auto before = growing.everything();
  step(inputs);
  EXPECT_TRUE(growing.everything() != before);
  const std::size_t count = growing.optimizer.params().size();
  growing.grow();
  EXPECT_EQ(message_of<ArgumentError>([&] { step(inputs); }),
            concat("[Sgd] has ", count + 2, " parameters, and had ", count,
                   " when this step was captured. Capture the step again after add_group()"));
}

TEST(AddedGroup, WhatWasCompiledIsRefused) {
  Growing plain;
  const auto train = [](Growing& growing, const Tensor& loss) {
    loss.backward();
    growing.optimizer.step();
  };
  expect_refusal(plain, [&](const Tensor& loss) { train(plain, loss); });
  RecorderLog log;
  Growing recorded;
  expect_refusal(
      recorded, [&](const Tensor& loss) { train(recorded, loss); }, recorded_in(log));
  EXPECT_GT(log.launches, 0);
  // Updates that draw random numbers are not spread over the backward pass.
  Growing whole;
  const Tensor low = ones({4}, DType::kBf16).set_requires_grad(true);
  whole.optimizer.add_group({{low}, {.param_update = optim::ParamUpdate::kStochastic}});
  expect_refusal(whole, [&](const Tensor& loss) { train(whole, loss); });
  for (const bool unscales : {false, true}) {
    Growing scaled;
    amp::GradScaler scaler({.init_scale = 1024});
    expect_refusal(scaled, [&](const Tensor& loss) {
      scaler.scale(loss).backward();
      if (unscales) scaler.unscale_(scaled.optimizer);
      scaler.step(scaled.optimizer);
      scaler.update();
    });
  }
}

}  // namespace
}  // namespace mezzo::graph
