// Tests weight gradients of linear layers that are computed by their updates.
#include "mezzo/graph/gradients_by_updates.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/graph/early_training.h"
#include "tests/unit/pending_norm.h"

namespace mezzo::graph {
namespace {

// The first two weight gradients are large enough for early updates of their own. The last one,
// which is updated with the second, is smaller than its operands.
class LinearNet : public nn::Module {
 public:
  LinearNet() { add("fc1", fc1_), add("fc2", fc2_), add("fc3", fc3_); }
  Tensor forward(const Tensor& x) override {
    return fc3_(relu(fc2_(relu(fc1_(reshape(x, {x.size(0), -1}))))));
  }

 private:
  nn::Linear fc1_{192, 400};
  nn::Linear fc2_{400, 200};
  nn::Linear fc3_{200, 3};
};

// Several weight gradients are updated together.
class NarrowNet : public nn::Module {
 public:
  NarrowNet() {
    add("first", first_), add("second", second_), add("third", third_), add("fourth", fourth_);
    add("fifth", fifth_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(second_(relu(first_(reshape(x, {x.size(0), -1})))));
    return fifth_(relu(fourth_(relu(third_(y)))));
  }

 private:
  nn::Linear first_{192, 128};
  nn::Linear second_{128, 128};
  nn::Linear third_{128, 128};
  nn::Linear fourth_{128, 128};
  nn::Linear fifth_{128, 3};
};

template <class Optimizer>
using LinearTraining = EarlyTraining<Optimizer, LinearNet>;

const amp::TrainNetworkOptions kBf16{.level = "O2", .dtype = DType::kBf16};

template <class Training>
std::vector<std::vector<std::vector<double>>> states_after(Training& training) {
  std::vector<std::vector<std::vector<double>>> states;
  for (int i = 0; i < kEarlySteps; ++i) {
    const amp::Batch batch = early_batch(static_cast<std::uint64_t>(i), 24);
    training.step(batch.images, batch.labels);
    states.push_back(training.everything());
  }
  return states;
}

template <class Training>
std::ptrdiff_t left_to_updates(const Training& training) {
  const auto left = gradients_by_updates(training.compiled->latest()->program());
  return std::ranges::count(left, true);
}

template <class Training>
std::ptrdiff_t nowhere(const Training& training) {
  return std::ranges::count(training.compiled->latest()->memory().homes, Home::kReaders);
}

class GradientsByUpdates : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  }
};

template <class Optimizer, class Options>
void expect_the_bits_of_others(const Options& options, std::ptrdiff_t left,
                               const amp::TrainNetworkOptions& amp = kBf16) {
  LinearTraining<Optimizer> eager(EarlyMode::kEagerly, options, amp);
  const auto expected = states_after(eager);
  LinearTraining<Optimizer> training(EarlyMode::kEarly, options, amp);
  EXPECT_TRUE(states_after(training) == expected);
  EXPECT_EQ(left_to_updates(training), left);
  EXPECT_EQ(nowhere(training), left);
  const test::Without rows("cpu_grad_rows");
  LinearTraining<Optimizer> others(EarlyMode::kEarly, options, amp);
  EXPECT_TRUE(states_after(others) == expected);
  EXPECT_EQ(left_to_updates(others), 0);
  EXPECT_EQ(nowhere(others), 0);
}

TEST_F(GradientsByUpdates, HaveTheBitsOfOthers) {
  expect_the_bits_of_others<optim::Sgd>(kEarlySgd, 2);
  expect_the_bits_of_others<optim::Adam>(optim::AdamOptions{.lr = 0.01}, 2);
  expect_the_bits_of_others<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1}, 2);
}

TEST_F(GradientsByUpdates, TakeNoMemory) {
  LinearTraining<optim::Sgd> training(EarlyMode::kEarly, kEarlySgd, kBf16);
  states_after(training);
  const test::Without rows("cpu_grad_rows");
  LinearTraining<optim::Sgd> others(EarlyMode::kEarly, kEarlySgd, kBf16);
  states_after(others);
  const std::size_t with = training.compiled->latest()->memory().arena_bytes;
  const std::size_t without = others.compiled->latest()->memory().arena_bytes;
  EXPECT_GT(without, 192UL * 400 * sizeof(float));  // mostly the largest gradient
  EXPECT_LT(with, without / 2);
}

// The arena of a training of NarrowNet with so many samples.
std::size_t arena_of_narrow(std::int64_t samples) {
  EarlyTraining<optim::Sgd, NarrowNet> training(EarlyMode::kEarly, kEarlySgd, kBf16);
  const amp::Batch batch = early_batch(1, samples);
  training.step(batch.images, batch.labels);
  return training.compiled->latest()->memory().arena_bytes;
}

TEST_F(GradientsByUpdates, KeepNoOperandsThatTakeMoreMemory) {
  for (const std::int64_t samples : {16, 1024}) {
    const std::size_t with = arena_of_narrow(samples);
    const test::Without rows("cpu_grad_rows");
    EXPECT_LE(with, arena_of_narrow(samples)) << samples << " samples";
  }
}

// Sums of two gradients, and gradients in another precision, are computed separately.
TEST_F(GradientsByUpdates, AreNoneOfOtherGradients) {
  amp::TrainNetworkOptions micro = kBf16;
  micro.step.micro_batches = 2;
  expect_the_bits_of_others<optim::Sgd>(kEarlySgd, 0, micro);
  expect_the_bits_of_others<optim::Sgd>(kEarlySgd, 0, {.level = "O0"});
}

TEST_F(GradientsByUpdates, AreNoneWhereGradientsAreLookedAtFirst) {
  amp::TrainNetworkOptions clipped = kBf16;
  clipped.step.max_grad_norm = 0.5;
  expect_the_bits_of_others<optim::Sgd>(kEarlySgd, 0, clipped);
  expect_the_bits_of_others<optim::Sgd>(kEarlySgd, 0, {.level = "O2", .dtype = DType::kF16});
}

TEST_F(GradientsByUpdates, AreNoneOfUpdatesInTheEnd) {
  LinearTraining<optim::Sgd> training(EarlyMode::kInTheEnd, kEarlySgd, kBf16);
  states_after(training);
  EXPECT_EQ(left_to_updates(training), 0);
}

}  // namespace
}  // namespace mezzo::graph
