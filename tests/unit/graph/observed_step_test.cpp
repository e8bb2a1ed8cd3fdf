// Tests what observers of training steps are told, eagerly and in a captured step.
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/step_observer.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"

namespace mezzo::graph {
namespace {

using amp::SmallNet;

// Keeps the values of everything that one step or one replay computes.
class Values final : public amp::StepObserver {
 public:
  bool begin_step(double /*scale*/) override {
    if (watches_steps) of_step.clear();
    now_ = &of_step;
    return watches_steps;
  }
  bool begin_replay(const amp::TrainStepResult& result, const mezzo::Batch& /*batch*/) override {
    EXPECT_TRUE(result.skipped);
    of_replay.clear();
    now_ = &of_replay;
    return true;
  }
  void on_call(const amp::ObservedStepCall& call) override {
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const auto [entry, is_new] =
          now_->try_emplace(call.results[i], call.outputs[i].to_vector<double>());
      if (!is_new && !call.results[i].call.op.starts_with("cast")) {
        ADD_FAILURE() << call.results[i].call.text() << " twice";
      }
    }
  }
  void end_calls() override { ++ends; }

  bool watches_steps = true;
  int ends = 0;
  std::map<ResultId, std::vector<double>> of_step;
  std::map<ResultId, std::vector<double>> of_replay;

 private:
  std::map<ResultId, std::vector<double>>* now_ = nullptr;
};

// Doubles that are compared by their bits, since NaN does not equal itself.
std::vector<std::uint64_t> bits_of(const std::vector<double>& values) {
  std::vector<std::uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

class DropoutNet : public nn::Module {
 public:
  DropoutNet() {
    add("small", small_);
    add("dropout", dropout_);
  }
  Tensor forward(const Tensor& x) override { return small_(dropout_(x)); }

 private:
  SmallNet small_;
  nn::Dropout dropout_{0.5};
};

struct Training {
  explicit Training(bool is_captured, double scale = 1) {
    Generator generator(11);
    for (const Tensor& param : net.parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.3, param);
    }
    const bool scales = scale != 1;
    step.emplace(net, amp::steep_loss, optimizer, amp::GradScaler({.init_scale = scale}, scales),
                 amp::TrainStepOptions{.observers = {&values}});
    if (is_captured) step->set_execution(captured(net));
  }

  amp::TrainStepResult run(std::uint64_t seed, double first_pixel = 0) {
    const amp::Batch batch = amp::small_batch(seed);
    batch.images.mutable_data<float>()[0] += static_cast<float>(first_pixel);
    return (*step)(batch.images, batch.labels);
  }

  DropoutNet net;
  optim::Sgd optimizer{net.parameters(), {.lr = 0.05}};
  Values values;
  std::optional<amp::TrainStep> step;
};

std::vector<std::string> texts_of(const std::map<ResultId, std::vector<double>>& values) {
  std::vector<std::string> texts;
  for (const auto& [result, elements] : values) {
    if (result.output == 0) texts.push_back(result.call.text());
  }
  return texts;
}

TEST(ObservedStep, NamesCallsByModuleAndBackwardCallsByWhatTheyDifferentiate) {
  Training eager(false);
  eager.run(1);
  EXPECT_THAT(texts_of(eager.values.of_step),
              testing::IsSupersetOf({"dropout: dropout", "small.conv: conv2d",
                                     "small.bn: batch_norm", "small: relu", "small.fc: linear",
                                     "small.conv: conv2d_grad_weight, backward of conv2d",
                                     "small: relu_grad, backward of relu"}));
  EXPECT_EQ(eager.values.ends, 1);
}

TEST(ObservedStep, ACapturedStepHasTheSameValuesUnderTheSameNames) {
  manual_seed(3);
  Training eager(false);
  manual_seed(3);
  Training graph(true);
  for (const std::uint64_t seed : {1, 2, 3}) {
    manual_seed(seed);
    eager.run(seed);
    manual_seed(seed);
    graph.run(seed);
    std::set<std::string> shared;
    for (const auto& [result, values] : graph.values.of_step) {
      const auto same = eager.values.of_step.find(result);
      if (same == eager.values.of_step.end()) continue;
      shared.insert(result.call.text());
      EXPECT_EQ(bits_of(values), bits_of(same->second)) << result.call.text();
    }
    EXPECT_THAT(shared, testing::IsSupersetOf({"dropout: dropout", "small.conv: conv2d",
                                               "small: relu", "small.fc: linear",
                                               "small.conv: conv2d_grad_weight, backward of "
                                               "conv2d"}));
  }
}

// Each kind of skip is replayed with the bits of the step itself, and leaves no trace.
class SkippedStep : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(SkippedStep, IsReplayedWithItsOwnBits) {
  const auto [is_captured, is_overflow] = GetParam();
  manual_seed(5);
  Training observed(is_captured, is_overflow ? 0x1p127 : 1);
  manual_seed(5);
  Training alone(is_captured, is_overflow ? 0x1p127 : 1);
  alone.values.watches_steps = false;
  const double pixel = is_overflow ? 0 : std::nan("");
  for (const std::uint64_t seed : {1, 2}) {
    manual_seed(seed);
    const bool is_skipped = seed == 1 || is_overflow;
    EXPECT_EQ(observed.run(seed, seed == 1 ? pixel : 0).skipped, is_skipped);
    const RandomPosition position = default_generator().position();
    manual_seed(seed);
    alone.run(seed, seed == 1 ? pixel : 0);
    EXPECT_EQ(position, default_generator().position());
    EXPECT_EQ(amp::everything(observed.net, observed.optimizer),
              amp::everything(alone.net, alone.optimizer));
    if (!is_skipped) continue;
    EXPECT_FALSE(observed.values.of_replay.empty());
    for (const auto& [result, values] : observed.values.of_step) {
      const auto again = observed.values.of_replay.find(result);
      ASSERT_NE(again, observed.values.of_replay.end()) << result.call.text();
      EXPECT_EQ(bits_of(values), bits_of(again->second)) << result.call.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllModes, SkippedStep, testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace mezzo::graph
