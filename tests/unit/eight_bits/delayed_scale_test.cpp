// Trajectories of delayed scales against TransformerEngine's rule, written out.
#include "mezzo/ops/delayed_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/eight_bits/eight_bit_net.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

// The rule with plain numbers: amax = max(history); scale = (largest / amax) / 2^margin if amax is
// positive and finite, at most the largest f32; then roll(history, -1) and history[0] = 0.
struct PlainScale {
  explicit PlainScale(std::size_t length) : history(length) {}

  void note(float amax) { history[0] = std::max(history[0], amax); }
  void advance(double largest, int margin) {
    const float amax = *std::ranges::max_element(history);
    if (amax > 0) {
      const float wanted = static_cast<float>(std::ldexp(largest, -margin)) / amax;
      scale = std::min(wanted, std::numeric_limits<float>::max());
    }
    std::vector<float> rolled(history.begin() + 1, history.end());
    rolled.push_back(history[0]);
    history = rolled;
    history[0] = 0;
  }

  float scale = 1;
  std::vector<float> history;
};

void note_some(Generator& generator, const DelayedScale& scale, PlainScale& plain) {
  for (std::uint64_t uses = generator.below(3); uses > 0; --uses) {
    const float amax = std::ldexp(static_cast<float>(generator.uniform()),
                                  static_cast<int>(generator.below(20)) - 10);
    note_amax(scale, full({1}, amax));
    plain.note(amax);
  }
}

void expect_rule(std::int64_t length, int margin) {
  const DelayedScale scale = make_delayed_scale(length, kCpuDevice);
  PlainScale plain(static_cast<std::size_t>(length));
  Generator generator(static_cast<std::uint64_t>(length));
  for (int step = 0; step < 200; ++step) {
    mezzo::advance(scale, DType::kE4m3, margin);
    plain.advance(448, margin);
    EXPECT_EQ(scale.scale.to_vector<float>()[0], plain.scale) << step;
    note_some(generator, scale, plain);
    EXPECT_EQ(scale.history.to_vector<float>(), plain.history) << step;
  }
}

TEST(DelayedScale, FollowsTheRuleOverManySteps) {
  for (const std::int64_t length : {1, 2, 5, 64}) {
    for (const int margin : {0, 3}) expect_rule(length, margin);
  }
}

TEST(DelayedScale, ZerosAndWhatIsNotFiniteChangeNothing) {
  const DelayedScale scale = make_delayed_scale(3, kCpuDevice);
  for (const double amax : {0.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    note_amax(scale, full({1}, amax));
    mezzo::advance(scale, DType::kE4m3, 0);
    EXPECT_EQ(scale.scale.to_vector<float>()[0], 1);
  }
  note_amax(scale, full({1}, 2));
  note_amax(scale, full({1}, INFINITY));
  mezzo::advance(scale, DType::kE4m3, 0);
  EXPECT_EQ(scale.scale.to_vector<float>()[0], 224);
}

// A region's linear layer, whose operands have prescribed largest values.
struct Layer {
  std::shared_ptr<const amp::EightBits> eight =
      amp::make_eight_bits({.scaling = Scaling::kDelayed, .history = 4});
  amp::Policy policy{.level = amp::Level::kO2, .eight_bits = eight};
  Tensor w = full({8, 8}, 0.5).set_requires_grad(true);

  Tensor step(double largest_x) {
    Tensor y;
    {
      const amp::Autocast region(policy);
      y = linear(full({4, 8}, largest_x), w);
    }
    sum(y.astype(DType::kF32)).backward();
    w.clear_grad();
    return y;
  }

  float scale_of_x() const {
    for (const NamedTensor& entry : eight->histories->state()) {
      if (entry.name == "linear.x.scale") return entry.tensor.to_vector<float>()[0];
    }
    ADD_FAILURE() << "there is no scale";
    return 0;
  }
};

TEST(DelayedScale, TheFirstStepHasScaleOneAndTheNextThatOfTheFirst) {
  Layer layer;
  layer.step(7);
  EXPECT_EQ(layer.scale_of_x(), 1);
  layer.step(14);
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 7);
  layer.step(3.5);
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 14);
}

TEST(DelayedScale, APlantedOverflowSaturatesOnceAndIsCaughtByTheNextStep) {
  Layer layer;
  for (int i = 0; i < 3; ++i) layer.step(7);
  // 7000 * 64 is far beyond 448: the codes saturate at 448, which stands for 7.
  EXPECT_EQ(layer.step(7000).to_vector<float>()[0], 28);
  EXPECT_NEAR(layer.step(7000).to_vector<float>()[0], 28000, 28000 * 0x1p-4);
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 7000);
  // It stays in the history for four steps.
  for (int i = 0; i < 3; ++i) layer.step(7);
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 7000);
  layer.step(7);
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 7000);
  layer.step(7);
  EXPECT_EQ(layer.scale_of_x(), 64);
}

TEST(DelayedScale, EvaluationsNeitherAdvanceNorNote) {
  Layer layer;
  layer.step(7);
  layer.step(7);
  const auto before = layer.eight->histories->state();
  {
    const NoGrad no_grad;
    const amp::Autocast region(layer.policy);
    linear(full({4, 8}, 100), layer.w);
  }
  const auto after = layer.eight->histories->state();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].tensor.to_vector<float>(), after[i].tensor.to_vector<float>())
        << before[i].name;
  }
}

TEST(DelayedScale, ARegionWithinARegionDoesNotAdvance) {
  Layer layer;
  layer.step(7);
  const amp::Autocast outer(layer.policy);
  EXPECT_EQ(layer.scale_of_x(), 64);
  linear(full({4, 8}, 14), layer.w);
  const amp::Autocast inner(layer.policy);
  EXPECT_EQ(layer.scale_of_x(), 64);
}

// Recordings hold the list of all scales, and are made again when memory that they hold has moved.
TEST(DelayedScale, AnotherListOfScalesCountsAsAMove) {
  const ScalingRecipe recipe{.scaling = Scaling::kDelayed, .history = 4};
  amp::ScaleHistories histories(recipe);
  const auto moves_by = [](const auto& change) {
    const std::uint64_t before = count_of_moves();
    change();
    return count_of_moves() - before;
  };
  EXPECT_EQ(moves_by([&] { histories.of("a", kCpuDevice); }), 1);
  EXPECT_EQ(moves_by([&] { histories.of("a", kCpuDevice); }), 0);
  const std::vector<NamedTensor> one = histories.state();
  EXPECT_EQ(moves_by([&] { histories.load_state(one); }), 0);
  EXPECT_EQ(moves_by([&] { histories.of("b", kCpuDevice); }), 1);
  EXPECT_EQ(moves_by([&] { histories.load_state(one); }), 0) << "b begins again in its place";
  amp::ScaleHistories other(recipe);
  EXPECT_EQ(moves_by([&] { other.load_state(one); }), 1);
}

TEST(DelayedScale, StepsWithinOneRegionAdvance) {
  Layer layer;
  const amp::Autocast region(layer.policy);
  for (const double largest : {7.0, 14.0, 3.5}) {
    sum(linear(full({4, 8}, largest), layer.w).astype(DType::kF32)).backward();
    layer.w.clear_grad();
  }
  EXPECT_EQ(layer.scale_of_x(), 448.0F / 14);
}

TEST(DelayedScale, ProductsThatAStateLacksBeginAgain) {
  Layer layer;
  layer.step(7);
  layer.step(7);
  EXPECT_EQ(layer.scale_of_x(), 64);
  layer.eight->histories->load_state({});
  EXPECT_EQ(layer.scale_of_x(), 1);
}

TEST(DelayedScale, StatesOfOthersAreRefused) {
  Layer layer;
  layer.step(7);
  auto state = layer.eight->histories->state();
  ASSERT_EQ(state.size(), 6);
  state.pop_back();
  EXPECT_EQ(message_of<ArgumentError>([&] { layer.eight->histories->load_state(state); }),
            "[scales] the state has no `linear.grad.history`. Give what state() of the same recipe "
            "returned");
  const auto longer = std::make_shared<amp::ScaleHistories>(
      ScalingRecipe{.scaling = Scaling::kDelayed, .history = 8});
  EXPECT_EQ(message_of<ArgumentError>([&] { longer->load_state(layer.eight->histories->state()); }),
            "[scales] `linear.x.history` is f32[4], not f32[8]. The recipe's history must be what "
            "it was");
}

}  // namespace
}  // namespace mezzo
