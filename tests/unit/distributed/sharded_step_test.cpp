// Tests steps whose processes share the optimizer's work, and exchange gradients in 16 bits.
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/distributed/wide_training.h"
#include "tests/unit/message_of.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;

WideKind sharded(WideKind kind) {
  kind.options.shard_optimizer = true;
  return kind;
}

template <class Optimizer, class Options>
MakeOptimizer make(const Options& options) {
  return [options](std::vector<Tensor> params) {
    return std::make_unique<Optimizer>(std::move(params), options);
  };
}

void expect_the_same(const WideKind& kind, int processes) {
  const std::vector<WideEnd> whole = train_wide_together(processes, kind);
  const std::vector<WideEnd> parts = train_wide_together(processes, sharded(kind));
  for (const WideEnd& end : whole) EXPECT_EQ(end.result(), whole[0].result());
  for (const WideEnd& end : parts) EXPECT_EQ(end.result(), whole[0].result()) << processes;
}

TEST(ShardedStep, HasTheBitsOfTheWholeOne) {
  for (const int processes : {2, 3, 4}) expect_the_same({}, processes);
  for (const bool graph : {false, true}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      const double scale = dtype == DType::kF16 ? 1024 : 0;
      expect_the_same({.level = amp::Level::kO2, .dtype = dtype, .graph = graph, .scale = scale},
                      3);
    }
    expect_the_same({.graph = graph, .options = {.micro_batches = 2}}, 2);
  }
}

// And those of one process on as many micro-batches, where the mean of powers of two is exact.
TEST(ShardedStep, HasTheBitsOfOneProcess) {
  for (const int processes : {2, 4}) {
    for (const bool graph : {false, true}) {
      const WideKind kind{.graph = graph};
      WideKind alone = kind;
      alone.options.micro_batches = processes;
      const WideEnd expected = train_wide(alone, nullptr);
      for (const WideEnd& end : train_wide_together(processes, sharded(kind))) {
        EXPECT_EQ(end.result(), expected.result()) << processes << graph;
      }
    }
  }
}

// Three buckets, of which two are sent within the backward pass.
TEST(ShardedStep, SeveralBucketsHaveTheBitsOfOneProcess) {
  for (const bool graph : {false, true}) {
    const WideKind kind{.hidden = 1100, .graph = graph, .steps = 2};
    WideKind alone = kind;
    alone.options.micro_batches = 2;
    const WideEnd expected = train_wide(alone, nullptr);
    for (const WideKind& one : {kind, sharded(kind)}) {
      for (const WideEnd& end : train_wide_together(2, one)) {
        EXPECT_EQ(end.result(), expected.result()) << graph;
      }
    }
  }
}

TEST(ShardedStep, EveryOptimizerHasTheBitsOfTheWholeOne) {
  const std::vector<MakeOptimizer> optimizers = {
      make<optim::Sgd>(optim::SgdOptions{.lr = 0.05, .momentum = 0.9}),
      make<optim::Adam>(optim::AdamOptions{.lr = 0.01}),
      make<optim::Lion>(optim::LionOptions{.lr = 0.001}),
      make<optim::RmsProp>(optim::RmsPropOptions{.lr = 0.001, .momentum = 0.9}),
      make<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .state_dtype = DType::kBf16}),
      make<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .state_dtype = DType::kE4m3})};
  for (const MakeOptimizer& optimizer : optimizers) {
    expect_the_same({.optimizer = optimizer}, 3);
  }
}

TEST(ShardedStep, SixteenBitParametersHaveTheBitsOfTheWholeOnes) {
  for (const auto rule : {optim::ParamUpdate::kMaster, optim::ParamUpdate::kKahan,
                          optim::ParamUpdate::kStochastic, optim::ParamUpdate::kNearest}) {
    const auto optimizer =
        make<optim::Sgd>(optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .param_update = rule});
    for (const bool graph : {false, true}) {
      expect_the_same({.params = DType::kBf16, .graph = graph, .optimizer = optimizer}, 3);
    }
  }
}

TEST(ShardedStep, KeepsItsShareOfTheState) {
  const WideEnd whole = train_wide({}, nullptr);
  for (const int processes : {2, 4}) {
    std::size_t sum = 0;
    for (const WideEnd& end : train_wide_together(processes, sharded({}))) {
      EXPECT_LE(static_cast<double>(end.state_bytes),
                1.05 * static_cast<double>(whole.state_bytes) / processes);
      sum += end.state_bytes;
    }
    EXPECT_EQ(sum, whole.state_bytes);
  }
}

TEST(ShardedStep, AllSkipForTheOverflowOfAnyOne) {
  for (const bool graph : {false, true}) {
    for (const int culprit : {0, 1, 2}) {
      const Spoil spoil = [=](int step, int rank, Tensor& images) {
        if (step == 1 && rank == culprit) images = images * 0x1p30;
      };
      const WideKind kind{.graph = graph, .scale = 0x1p110};
      const auto whole = train_wide_together(3, kind, spoil);
      EXPECT_EQ(whole[0].skipped, (std::vector<bool>{false, true, false, false}));
      EXPECT_EQ(whole[0].scales[1], 0x1p109);
      for (const WideEnd& end : train_wide_together(3, sharded(kind), spoil)) {
        EXPECT_EQ(end.result(), whole[0].result()) << culprit << graph;
      }
    }
  }
}

// The squares of parts are added in another order, so the norm may differ in its last bits.
TEST(ShardedStep, ClipsToTheNormOfAllGradients) {
  for (const bool graph : {false, true}) {
    for (const double scale : {0.0, 64.0}) {
      WideKind kind{.graph = graph, .scale = scale};
      kind.options.max_grad_norm = 0.5;
      const auto whole = train_wide_together(2, kind);
      ASSERT_EQ(whole[0].norms.size(), 4U);
      EXPECT_GT(whole[0].norms[0], 0.5);
      for (const WideEnd& end : train_wide_together(2, sharded(kind))) {
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(end.norms[i], whole[0].norms[i], 1e-6 * whole[0].norms[i]);
          EXPECT_NEAR(end.losses[i], whole[0].losses[i], 1e-5 * whole[0].losses[i]);
        }
      }
    }
  }
}

// In steps that are counted, gradients stay whole.
TEST(ShardedStep, StatisticsAreOfWholeGradients) {
  const auto counts = [](bool shards) {
    return results_of<std::vector<std::int64_t>>(2, [&](distributed::ProcessGroup& group) {
      WideNet net(64);
      amp::GradientStatistics statistics(net, {.every = 2});
      optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
      amp::TrainStep step(
          net, [](const Tensor& x, const Tensor&) { return mean(x * x); }, optimizer,
          amp::GradScaler({.init_scale = 8}),
          {.statistics = &statistics, .processes = &group, .shard_optimizer = shards});
      Generator generator(static_cast<std::uint64_t>(group.rank()));
      for (int i = 0; i < 3; ++i) step(randn({2, 1024}, generator), Tensor());
      std::vector<std::int64_t> numbers;
      for (const amp::GradientHistogram& histogram : statistics.total()) {
        numbers.insert(numbers.end(), histogram.counts.cells.begin(), histogram.counts.cells.end());
      }
      return numbers;
    });
  };
  EXPECT_EQ(counts(true), counts(false));
}

// --- Gradients in 16 bits on the way
// ---------------------------------------------------------------

std::vector<double> first_losses(const WideKind& kind, int processes) {
  return train_wide_together(processes, kind)[0].losses;
}

// What a process sends in a step, besides a few bytes for what all check.
std::int64_t bytes_of_a_step(WideKind kind) {
  std::int64_t sent[2] = {};
  for (int steps = 1; steps <= 2; ++steps) {
    kind.steps = steps;
    sent[steps - 1] = train_wide_together(2, kind)[0].bytes_sent;
  }
  return sent[1] - sent[0];
}

// Parameters are f32, so that what a shared optimizer sends back is.
TEST(ReduceDType, HalvesTheBytes) {
  const WideKind exact{.hidden = 1100};
  const auto bytes = static_cast<double>(bytes_of_a_step(exact));
  EXPECT_NEAR(static_cast<double>(bytes_of_a_step(sharded(exact))) / bytes, 1, 0.01);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    WideKind kind = exact;
    kind.options.reduce_dtype = dtype;
    EXPECT_NEAR(static_cast<double>(bytes_of_a_step(kind)) / bytes, 0.5, 0.01);
    EXPECT_NEAR(static_cast<double>(bytes_of_a_step(sharded(kind))) / bytes, 0.75, 0.01);
  }
}

// Each gradient is rounded twice, by at most 2^-8 of it in bf16 and 2^-11 in f16.
TEST(ReduceDType, ChangesLossesALittle) {
  const WideKind exact{.hidden = 1100, .steps = 2};
  const auto expected = train_wide_together(2, exact);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const bool shards : {false, true}) {
      WideKind kind = exact;
      kind.options.reduce_dtype = dtype;
      kind.options.shard_optimizer = shards;
      const auto ends = train_wide_together(2, kind);
      EXPECT_EQ(ends[0].result(), ends[1].result());
      EXPECT_NEAR(ends[0].losses[1], expected[0].losses[1], 0.02 * expected[0].losses[1]);
    }
  }
}

TEST(ReduceDType, HasTheSameBitsInPartsAndInGraphMode) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const int processes : {2, 3}) {
      WideKind kind;
      kind.options.reduce_dtype = dtype;
      const std::vector<double> losses = first_losses(kind, processes);
      expect_the_same(kind, processes);
      kind.graph = true;
      EXPECT_EQ(first_losses(kind, processes), losses);
      expect_the_same(kind, processes);
    }
  }
}

// The mean of 60000, in f16, of which two are more than f16 can hold.
TEST(ReduceDType, SumsInF16DoNotOverflowWhereMeansDoNot) {
  in_processes(2, [](distributed::ProcessGroup& group) {
    Tensor param = zeros({300});
    param.set_requires_grad(true);
    param.set_grad(full({300}, 60000));
    optim::average_gradients(std::span(&param, 1), group, DType::kF16);
    EXPECT_EQ(param.grad().to_vector<float>(), std::vector<float>(300, 60000));
  });
}

TEST(ReduceDType, OthersAreRefused) {
  WideKind kind;
  kind.options.reduce_dtype = DType::kF64;
  EXPECT_THAT(message_of<ArgumentError>([&] { train_wide(kind, nullptr); }),
              HasSubstr("[train_step] processes cannot exchange gradients in f64. Use f32, bf16"));
}

}  // namespace
}  // namespace mezzo::test
