// Training with every recipe: eager and captured steps have the same bits, parts of a batch are
// taken, and a run that is resumed goes on bit for bit.
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/loader.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/checkpointing.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/eight_bits/eight_bit_net.h"
#include "tests/unit/graph/fake_recorder.h"

namespace mezzo::amp {
namespace {

using test::EightBitNet;

struct EightBitRun {
  explicit EightBitRun(Scaling scaling, TrainStepOptions options = {}) {
    manual_seed(3);
    net = std::make_unique<EightBitNet>();
    ScalingRecipe recipe = usual_recipe(scaling);
    recipe.history = 3;
    set_policy(*net, {.level = Level::kO2, .eight_bits = make_eight_bits(recipe)});
    optimizer = std::make_unique<optim::Adam>(net->parameters(), optim::AdamOptions{.lr = 0.01});
    step = std::make_unique<TrainStep>(*net, class_loss, *optimizer, GradScaler({}, false),
                                       std::move(options));
  }

  std::vector<double> losses_of(std::uint64_t first, std::uint64_t steps) {
    std::vector<double> losses;
    for (std::uint64_t i = first; i < first + steps; ++i) {
      const auto [images, labels] = small_batch(i);
      losses.push_back((*step)(images, labels).loss);
    }
    return losses;
  }

  std::vector<std::vector<double>> state() const {
    std::vector<std::vector<double>> all = everything(*net, *optimizer);
    if (const auto scales = step->scale_histories()) {
      for (const NamedTensor& entry : scales->state()) {
        all.push_back(entry.tensor.to_vector<double>());
      }
    }
    return all;
  }

  std::unique_ptr<EightBitNet> net;
  std::unique_ptr<optim::Adam> optimizer;
  std::unique_ptr<TrainStep> step;
};

class EightBitTraining : public testing::TestWithParam<Scaling> {};

TEST_P(EightBitTraining, CapturedStepsHaveTheBitsOfEagerOnes) {
  EightBitRun eager(GetParam());
  EightBitRun captured(GetParam());
  captured.step->set_execution(graph::captured(*captured.net));
  EXPECT_EQ(captured.losses_of(0, 8), eager.losses_of(0, 8));
  EXPECT_EQ(captured.state(), eager.state());
}

// Scales advance and histories take note within the recording: nothing cuts it.
TEST_P(EightBitTraining, RecordedStepsHaveTheBitsOfEagerOnes) {
  for (const std::int64_t parts : {1, 2}) {
    graph::RecorderLog log;
    EightBitRun eager(GetParam(), {.micro_batches = parts});
    EightBitRun recorded(GetParam(), {.micro_batches = parts});
    recorded.step->set_execution(graph::captured(*recorded.net, graph::recorded_in(log)));
    EXPECT_EQ(recorded.losses_of(0, 8), eager.losses_of(0, 8)) << parts << " parts";
    EXPECT_EQ(recorded.state(), eager.state()) << parts << " parts";
    EXPECT_EQ(log.recordings, 1) << parts << " parts";
    EXPECT_EQ(log.launches, 8 - graph::kEager) << parts << " parts";
  }
}

TEST_P(EightBitTraining, LearnsABatchByHeart) {
  EightBitRun run(GetParam());
  const auto [images, labels] = small_batch(1);
  double loss = 0;
  for (int i = 0; i < 60; ++i) loss = (*run.step)(images, labels).loss;
  EXPECT_LT(loss, 0.05);
}

TEST_P(EightBitTraining, AProbeChangesNothing) {
  struct Looker final : StepObserver {
    bool begin_step(double /*scale*/) override { return true; }
    void on_call(const ObservedStepCall& /*call*/) override {}
  } looker;
  EightBitRun plain(GetParam());
  EightBitRun probed(GetParam());
  plain.losses_of(0, 3);
  probed.losses_of(0, 3);
  const auto [images, labels] = small_batch(9);
  probed.step->probe({.inputs = {images}, .labels = {labels}}, 1, looker);
  EXPECT_EQ(probed.state(), plain.state());
  EXPECT_EQ(probed.losses_of(3, 3), plain.losses_of(3, 3));
}

TEST_P(EightBitTraining, PartsOfABatchAreTakenEagerlyAndCaptured) {
  EightBitRun eager(GetParam(), {.micro_batches = 2});
  EightBitRun captured(GetParam(), {.micro_batches = 2});
  captured.step->set_execution(graph::captured(*captured.net));
  EXPECT_EQ(captured.losses_of(0, 4), eager.losses_of(0, 4));
  EXPECT_EQ(captured.state(), eager.state());
}

// What a backward pass computes again has the scales of the first time.
TEST_P(EightBitTraining, RecomputedActivationsChangeNoBit) {
  EightBitRun plain(GetParam());
  EightBitRun again(GetParam());
  nn::recompute(*again.net->find("body"));
  const std::vector<double> losses = plain.losses_of(0, 5);
  EXPECT_EQ(again.losses_of(0, 5), losses);
  EXPECT_EQ(again.state(), plain.state());
  EightBitRun whole(GetParam());
  nn::recompute(*whole.net);
  EXPECT_EQ(whole.losses_of(0, 5), losses);
  EXPECT_EQ(whole.state(), plain.state());
}

// A history has one element for a step, however often its loss calls the network.
TEST_P(EightBitTraining, ANetworkThatIsCalledTwiceAdvancesOnce) {
  const auto train = [&](std::int64_t calls) {
    EightBitRun run(GetParam());
    TrainStep step(*run.net, LossOfBatch([&](mezzo::Batch& batch) {
      Tensor loss;
      for (std::int64_t i = 0; i < calls; ++i) {
        loss = class_loss((*run.net)(batch.inputs[0]), batch.labels[0]);
      }
      return loss;
    }),
                   *run.optimizer, GradScaler({}, false));
    for (std::uint64_t i = 0; i < 4; ++i) {
      const auto [images, labels] = small_batch(i);
      step(images, labels);
    }
    return run.state();
  };
  EXPECT_EQ(train(2), train(1));
}

TEST_P(EightBitTraining, ACapturedStepGoesBackToItsBeginning) {
  const std::unique_ptr<data::Dataset> digits = data::open_digits(data::Split::kTrain, 8);
  data::DataLoader loader(*digits, {.batch_size = 4, .seed = 5});
  for (const bool is_captured : {false, true}) {
    EightBitRun run(GetParam());
    if (is_captured) run.step->set_execution(graph::captured(*run.net));
    io::Checkpoint begin = train::capture({*run.step, loader}, 0);
    for (io::CheckpointGroup& group : begin.groups) {
      for (NamedTensor& entry : group.tensors) entry.tensor = copy_of(entry.tensor);
    }
    const std::vector<double> losses = run.losses_of(0, 4);
    const auto state = run.state();
    train::restore({*run.step, loader}, begin);
    EXPECT_EQ(run.losses_of(0, 4), losses);
    EXPECT_EQ(run.state(), state);
  }
}

TEST_P(EightBitTraining, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  const std::unique_ptr<data::Dataset> digits = data::open_digits(data::Split::kTrain, 8);
  data::DataLoader loader(*digits, {.batch_size = 4, .seed = 5});
  EightBitRun whole(GetParam());
  whole.losses_of(0, 5);
  const io::Checkpoint checkpoint = train::capture({*whole.step, loader}, 5);
  // As from a file: not the tensors that go on changing.
  io::Checkpoint copy = checkpoint;
  for (io::CheckpointGroup& group : copy.groups) {
    for (NamedTensor& entry : group.tensors) entry.tensor = copy_of(entry.tensor);
  }
  const std::vector<double> wanted = whole.losses_of(5, 5);
  for (const bool is_captured : {false, true}) {
    EightBitRun resumed(GetParam());
    if (is_captured) resumed.step->set_execution(graph::captured(*resumed.net));
    train::restore({*resumed.step, loader}, copy);
    EXPECT_EQ(resumed.losses_of(5, 5), wanted);
    EXPECT_EQ(resumed.state(), whole.state());
  }
}

// Also where the parts of a batch are several, a scale is that of the step.
TEST_P(EightBitTraining, ProcessesHaveOneScale) {
  const auto train = [&](distributed::ProcessGroup& group) {
    EightBitRun run(GetParam(), {.micro_batches = 2, .processes = &group});
    for (std::uint64_t i = 0; i < 4; ++i) {
      const auto [images, labels] = small_batch(10 * i + static_cast<std::uint64_t>(group.rank()));
      // A step that one process's loss has all skip.
      const bool is_bad = i == 2 && group.rank() == 0;
      const double factor = is_bad ? static_cast<double>(NAN) : 1.0 + group.rank();
      EXPECT_EQ((*run.step)(images * factor, labels).skipped, i == 2);
    }
    return run.state();
  };
  const auto states = test::results_of<std::vector<std::vector<double>>>(2, train);
  EXPECT_EQ(states[0], states[1]);
}

INSTANTIATE_TEST_SUITE_P(Recipes, EightBitTraining, testing::ValuesIn(kScalings),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST(EightBitScales, AreNamedByTheWeights) {
  EightBitRun run(Scaling::kDelayed);
  run.losses_of(0, 1);
  std::vector<std::string> names;
  for (const NamedTensor& entry : run.step->scale_histories()->state()) {
    if (entry.name.ends_with(".scale")) names.push_back(entry.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "body.fc.weight.x.scale", "body.fc.weight.weight.scale",
                       "body.fc.weight.grad.scale", "pointwise.weight.x.scale",
                       "pointwise.weight.weight.scale", "pointwise.weight.grad.scale"}));
}

TEST(EightBitScales, EveryNetworkHasItsOwn) {
  const Policy policy{.level = Level::kO2,
                      .eight_bits = make_eight_bits({.scaling = Scaling::kDelayed})};
  EightBitNet one;
  EightBitNet other;
  set_policy(one, policy);
  set_policy(other, policy);
  EXPECT_NE(scale_histories_of(one), scale_histories_of(other));
  EXPECT_NE(scale_histories_of(one), nullptr);
}

}  // namespace
}  // namespace mezzo::amp
