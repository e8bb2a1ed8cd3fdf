// Tests training steps of several processes: what they do together, and what one cannot do alone.
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using distributed::ProcessGroup;
using test::in_processes;
using test::results_of;
using testing::HasSubstr;

constexpr int kSteps = 5;
constexpr std::int64_t kBatch = 8;  // images over all processes

struct Kind {
  Level level = Level::kO0;
  DType dtype = DType::kBf16;
  bool graph = false;
  double scale = 0;  // of the loss; 0: no scaling
  LossFunction loss = class_loss;
  std::uint64_t seed = 3;  // determines the weights
  bool norm = false;       // with a batch norm over the images of all processes
};

struct Training {
  explicit Training(const Kind& kind, TrainStepOptions options = {}) : net(kind.norm) {
    if (kind.norm && options.processes != nullptr) {
      nn::convert_sync_batchnorm(net, *options.processes);
    }
    options.policy = Policy{kind.level, kind.dtype};
    GradScaler scaler = kind.scale > 0
                            ? GradScaler({.init_scale = kind.scale, .growth_interval = 2})
                            : GradScaler({}, false);
    Generator generator(kind.seed);
    for (const Tensor& param : net.parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.3, param);
    }
    step.emplace(net, kind.loss, optimizer, std::move(scaler), std::move(options));
    if (kind.graph) step->set_execution(graph::captured(net));
  }

  TrainStepResult operator()(const Tensor& images, const Tensor& labels) {
    results.push_back((*step)(images, labels));
    return results.back();
  }

  SmallNet net;
  optim::Sgd optimizer{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
  std::optional<TrainStep> step;
  std::vector<TrainStepResult> results;
};

// The outcome of a training.
struct End {
  std::vector<std::vector<double>> state;
  std::vector<double> losses;
  std::vector<double> scales;

  explicit End(const Training& training) : state(everything(training.net, training.optimizer)) {
    for (const TrainStepResult& result : training.results) {
      losses.push_back(result.loss);
      scales.push_back(result.next_scale);
    }
  }
  End() = default;
  bool operator==(const End&) const = default;
};

End alone(const Kind& kind, std::int64_t micro_batches) {
  Training training(kind, {.micro_batches = micro_batches});
  for (int i = 0; i < kSteps; ++i) {
    const Batch batch = small_batch(static_cast<std::uint64_t>(i), kBatch);
    training(batch.images, batch.labels);
  }
  return End(training);
}

// This process's part of a batch.
Batch part_of(const Batch& batch, const ProcessGroup& group) {
  const std::int64_t each = batch.images.size(0) / group.size();
  const std::int64_t begin = group.rank() * each;
  return {copy_of(slice(batch.images, 0, begin, begin + each)),
          copy_of(slice(batch.labels, 0, begin, begin + each))};
}

// Changes a process's batch of a step.
using Change = std::function<void(int step, const ProcessGroup& group, Batch& batch)>;

End together(const Kind& kind, ProcessGroup& group, const Change& change = {},
             std::int64_t micro_batches = 1) {
  Training training(kind, {.micro_batches = micro_batches, .processes = &group});
  for (int i = 0; i < kSteps; ++i) {
    Batch batch = part_of(small_batch(static_cast<std::uint64_t>(i), kBatch), group);
    if (change) change(i, group, batch);
    training(batch.images, batch.labels);
  }
  return End(training);
}

void expect_steps_on_micro_batches(const Kind& kind, int size) {
  const End expected = alone(kind, size);
  const auto ends =
      results_of<End>(size, [&](ProcessGroup& group) { return together(kind, group); });
  for (const End& end : ends) {
    EXPECT_EQ(end.state, expected.state) << name_of(kind.level) << ", " << size;
    EXPECT_EQ(end.losses, expected.losses);
  }
}

// Gradients are added up in the order of the processes, which is that of micro-batches. Powers of
// two divide exactly in f32 and bf16 at any point.
TEST(StepTogether, IsTheStepOnAsManyMicroBatches) {
  for (const Level level : {Level::kO0, Level::kO1, Level::kO2}) {
    for (const int size : {2, 4}) {
      expect_steps_on_micro_batches({.level = level}, size);
      expect_steps_on_micro_batches({.level = level, .graph = true}, size);
    }
  }
}

TEST(StepTogether, MayHaveMicroBatchesItself) {
  const Kind kind{.level = Level::kO2};
  const auto ends =
      results_of<End>(2, [&](ProcessGroup& group) { return together(kind, group, {}, 2); });
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0].losses.front(), alone(kind, 4).losses.front());
}

// Sums of 288 products in another order, through five updates.
TEST(StepTogether, SynchronizedNormsAreThoseOfOneProcess) {
  const End expected = alone({.norm = true}, 1);
  const double tolerance = kSteps * 288 * 0x1p-24;
  for (const int size : {2, 4}) {
    std::vector<End> ends;
    for (const bool graph : {false, true}) {
      for (End& end : results_of<End>(size, [&](ProcessGroup& group) {
             return together({.graph = graph, .norm = true}, group);
           })) {
        ends.push_back(std::move(end));
      }
    }
    for (const End& end : ends) EXPECT_EQ(end, ends.front());
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(ends.front().losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
    }
  }
}

// Trains in two processes, and changes the batch of one step in one of them.
std::vector<End> two_with(const Kind& kind, int culprit, int bad_step,
                          const std::function<void(Tensor& images)>& spoil) {
  const Change change = [&](int step, const ProcessGroup& group, Batch& batch) {
    if (step == bad_step && group.rank() == culprit) spoil(batch.images);
  };
  return results_of<End>(2, [&](ProcessGroup& group) { return together(kind, group, change); });
}

// The gradients of one process overflow f32, because its pixels and the scale are so large.
TEST(StepTogether, AllSkipForTheOverflowOfOne) {
  for (const bool graph : {false, true}) {
    for (const int culprit : {0, 1}) {
      const auto ends = two_with({.graph = graph, .scale = 0x1p112}, culprit, 2,
                                 [](Tensor& images) { images = images * 0x1p20; });
      EXPECT_EQ(ends[0], ends[1]);
      EXPECT_EQ(ends[0].scales, (std::vector<double>{0x1p112, 0x1p113, 0x1p112, 0x1p112, 0x1p113}));
    }
  }
}

// No scale repairs such a loss: all skip the step, and the scale stays.
TEST(StepTogether, AllSkipForTheLossOfOne) {
  for (const bool graph : {false, true}) {
    const Kind kind{.level = Level::kO2, .dtype = DType::kF16, .graph = graph, .scale = 256};
    const auto ends = two_with(kind, 1, kSteps - 1, [](Tensor& images) {
      images.mutable_data<float>()[0] = std::nanf("");
    });
    EXPECT_EQ(ends[0].state, ends[1].state);
    EXPECT_EQ(ends[0].scales, (std::vector<double>{256, 512, 512, 1024, 1024}));
    EXPECT_TRUE(std::isnan(ends[0].losses.back()));
    EXPECT_TRUE(std::isnan(ends[1].losses.back()));
  }
}

TEST(StepTogether, BeginsWithTheWeightsOfTheFirst) {
  const auto ends = results_of<End>(2, [](ProcessGroup& group) {
    return together({.seed = static_cast<std::uint64_t>(group.rank())}, group);
  });
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0].state, alone({.seed = 0}, 2).state);
}

TEST(StepTogether, OtherScalesAreRefusedEverywhere) {
  in_processes(2, [](ProcessGroup& group) {
    const double scale = group.rank() == 0 ? 256 : 512;
    EXPECT_THAT(
        message_of<ArgumentError>([&] { together({.scale = scale}, group); }),
        HasSubstr("[train_step] the loss scale of process 1 is 512, that of process 0 256"));
  });
}

TEST(StepTogether, OtherMicroBatchesAreRefusedEverywhere) {
  in_processes(2, [](ProcessGroup& group) {
    EXPECT_THAT(message_of<ArgumentError>([&] { together({}, group, {}, 1 + group.rank()); }),
                HasSubstr("the number of micro-batches of process 1 is 2, that of process 0 1"));
  });
}

// All get the momentum of process 0; where it alone has one, all are told.
TEST(StepTogether, BeginsWithTheStateOfTheFirst) {
  const auto train = [](ProcessGroup& group, bool has_state) {
    Training training({}, {.processes = &group});
    if (has_state) {
      training.optimizer.set_state("momentum.0", full({4, 1, 3, 3}, group.rank() + 1));
      training.optimizer.set_counter("updates", group.rank() + 1);
    }
    const Batch batch = part_of(small_batch(1, kBatch), group);
    training(batch.images, batch.labels);
    return End(training);
  };
  const auto ends = results_of<End>(2, [&](ProcessGroup& group) { return train(group, true); });
  EXPECT_EQ(ends[0], ends[1]);
  in_processes(2, [&](ProcessGroup& group) {
    EXPECT_THAT(message_of<ArgumentError>([&] { train(group, group.rank() == 0); }),
                HasSubstr("the number of the optimizer's states of process 1 is 0"));
  });
}

// Stochastic rounding draws the same numbers, whatever the process has drawn before.
TEST(StepTogether, RoundsAlikeEverywhere) {
  const auto states = results_of<std::vector<std::vector<double>>>(2, [](ProcessGroup& group) {
    manual_seed(static_cast<std::uint64_t>(group.rank()));
    SmallNet net(false);
    half_parameters(net, DType::kBf16);
    optim::Sgd optimizer(net.parameters(),
                         {.lr = 0.1, .param_update = optim::ParamUpdate::kStochastic});
    TrainStep step(net, class_loss, optimizer, GradScaler({}, false), {.processes = &group});
    for (int i = 0; i < kSteps; ++i) {
      const Batch batch = part_of(small_batch(static_cast<std::uint64_t>(i), kBatch), group);
      step(batch.images, batch.labels);
    }
    return everything(net, optimizer);
  });
  EXPECT_EQ(states[0], states[1]);
}

}  // namespace
}  // namespace mezzo::amp
