// Compares graph mode with eager mode: the same bits, whatever happens in a step.
#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/graph/twins.h"
#include "tests/unit/optim/user_rule.h"

namespace mezzo::graph {
namespace {

TEST(GraphTrainStep, EveryLevelAndDtype) {
  for (const char* level : {"O1", "auto", "O2", "O3"}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      Twins<amp::SmallNet> twins(small_net, kSgd, {.level = level, .dtype = dtype},
                                 amp::LossScaleOptions{.init_scale = 1024});
      for (std::uint64_t i = 0; i < 4; ++i) twins.step(amp::small_batch(i));
      twins.expect_same_state();
    }
  }
}

// The scale starts where gradients overflow, falls, grows again and overflows again.
TEST(GraphTrainStep, TheScaleTakesTheSameWay) {
  Twins<amp::SmallNet> twins(small_net, kSgd, {.level = "O0"},
                             amp::LossScaleOptions{.init_scale = 0x1p119, .growth_interval = 2},
                             amp::steep_loss);
  int skipped = 0;
  for (std::uint64_t i = 0; i < 24; ++i) {
    skipped += twins.step(amp::small_batch(i)).skipped ? 1 : 0;
    twins.expect_same_state();
  }
  EXPECT_GT(skipped, 3);
  EXPECT_LT(skipped, 23);
}

// An infinite image at every position of a run.
TEST(GraphTrainStep, StepsAreSkippedWhereverTheOverflowIs) {
  for (std::uint64_t bad = 0; bad < 4; ++bad) {
    Twins<amp::SmallNet> twins(small_net, kSgd, {.level = "O2", .dtype = DType::kF16},
                               amp::LossScaleOptions{.init_scale = 256});
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Batch batch = amp::small_batch(i);
      if (i == bad) fill(batch.images, std::numeric_limits<double>::infinity());
      EXPECT_EQ(twins.step(batch).skipped, i == bad);
      twins.expect_same_state();
    }
  }
}

TEST(GraphTrainStep, MicroBatchesAndClipping) {
  Twins<amp::SmallNet> twins(
      small_net, kSgd,
      {.level = "O2", .dtype = DType::kBf16, .step = {.micro_batches = 3, .max_grad_norm = 0.1}});
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(twins.step(amp::small_batch(i, 8)).grad_norm.has_value());
  }
  twins.expect_same_state();
}

// Eager steps end at the first such part, captured ones check after the last.
TEST(GraphTrainStep, AnInfinitePartOfABatchSkipsTheStep) {
  for (const std::int64_t bad : {0, 1, 2}) {
    Twins<amp::SmallNet> twins(small_net, kSgd,
                               {.level = "O2", .dtype = DType::kF16, .step = {.micro_batches = 3}},
                               amp::LossScaleOptions{.init_scale = 256});
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Batch batch = amp::small_batch(i);
      const std::int64_t n = batch.images.size(0);
      const Tensor part = slice(batch.images, 0, bad * n / 3, (bad + 1) * n / 3);
      if (i == 1) fill(part, std::numeric_limits<double>::infinity());
      EXPECT_EQ(twins.step(batch).skipped, i == 1);
      twins.expect_same_state();
    }
  }
}

TEST(GraphTrainStep, AnotherBatchSizeIsCapturedAgain) {
  Twins<amp::SmallNet> twins(small_net, kSgd, {.level = "O2", .dtype = DType::kBf16});
  for (const std::int64_t n : {8, 5, 8, 2}) twins.step(amp::small_batch(3, n));
  twins.expect_same_state();
}

// A step without a precision setting uses the region in which it is called.
TEST(GraphTrainStep, InACallersRegion) {
  Twins<amp::SmallNet> twins(small_net, kSgd, {.step = {.micro_batches = 2}},
                             amp::LossScaleOptions{.init_scale = 256});
  for (std::uint64_t i = 0; i < 2; ++i) {
    for (const amp::Level level : amp::kLevels) {
      const amp::Autocast region({.level = level, .lower = DType::kF16});
      EXPECT_FALSE(twins.step(amp::small_batch(i)).skipped);
      twins.expect_same_state();
    }
  }
}

TEST(GraphTrainStep, ANormalisationKeptInF32AtO3) {
  const auto make = [] {
    auto net = std::make_unique<amp::SmallNet>();
    amp::auto_mixed_precision(*net, "O3", DType::kBf16, {.keep_float32 = {"batch_norm"}});
    return net;
  };
  Twins<amp::SmallNet> twins(make, kSgd, {});
  for (std::uint64_t i = 0; i < 4; ++i) twins.step(amp::small_batch(i));
  twins.expect_same_state();
}

TEST(GraphTrainStep, AdamAndItsCounters) {
  Twins<amp::SmallNet, optim::AdamW> twins(small_net, optim::AdamWOptions{.lr = 0.01},
                                           {.level = "O1", .dtype = DType::kBf16});
  for (std::uint64_t i = 0; i < 4; ++i) twins.step(amp::small_batch(i));
  twins.expect_same_state();
}

TEST(GraphTrainStep, RulesOfAProgramsOwn) {
  for (const char* level : {"O0", "O2"}) {
    Twins<amp::SmallNet, optim::Signum> twins(small_net, optim::SignumOptions{.lr = 0.01},
                                              {.level = level, .dtype = DType::kBf16});
    for (std::uint64_t i = 0; i < 4; ++i) twins.step(amp::small_batch(i));
    twins.expect_same_state();
  }
}

// With dropout in the part that is computed again, which must drop the same numbers, and batch
// norm, whose statistics must move once.
TEST(GraphTrainStep, RecomputedModulesAndDropout) {
  class Net : public nn::Module {
   public:
    Net() {
      add("body", body_);
      add("drop", drop_);
      nn::recompute(body_);
    }
    Tensor forward(const Tensor& x) override { return drop_(body_(x)); }

   private:
    amp::SmallNet body_;
    nn::Dropout drop_{0.3};
  };
  Twins<Net> twins([] { return std::make_unique<Net>(); }, kSgd,
                   {.level = "O2", .dtype = DType::kBf16});
  for (std::uint64_t i = 0; i < 4; ++i) twins.step(amp::small_batch(i));
  twins.expect_same_state();
}

TEST(GraphTrainStep, GradientStatisticsCountTheSame) {
  std::vector<amp::GradientHistogram> counted[2];
  for (const int graph : {0, 1}) {
    manual_seed(3);
    amp::SmallNet net;
    amp::GradientStatistics statistics(net, {.every = 2, .activations = true});
    optim::Sgd optimizer(net.parameters(), kSgd);
    auto step = amp::build_train_network(net, amp::class_loss, optimizer,
                                         {.level = "O2",
                                          .dtype = DType::kF16,
                                          .loss_scale_manager = amp::DynamicLossScaleManager(256),
                                          .step = {.statistics = &statistics}});
    if (graph == 1) step.set_execution(captured(net));
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Batch batch = amp::small_batch(i);
      step(batch.images, batch.labels);
    }
    counted[graph] = statistics.total();
    for (const auto& more : statistics.total_activations()) counted[graph].push_back(more);
  }
  ASSERT_EQ(counted[0].size(), counted[1].size());
  for (std::size_t i = 0; i < counted[0].size(); ++i) {
    EXPECT_EQ(counted[1][i].passes, counted[0][i].passes) << counted[0][i].name;
    EXPECT_EQ(counted[1][i].counts, counted[0][i].counts) << counted[0][i].name;
    EXPECT_GT(counted[1][i].passes, 0) << counted[0][i].name;
  }
}

}  // namespace
}  // namespace mezzo::graph
