// Tests learning rates that are an array, in every optimizer.
#include "mezzo/optim/learning_rate.h"

#include <cmath>

#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

const Doubles kRates{0.1, 0.3, 0.02};

template <class Optimizer>
void train_step(Optimizer& optimizer, const Tensor& param, int number) {
  param.set_grad(gradient(param.shape(), number));
  optimizer.step();
}

// The rates of an array equal those that set_lr() sets before each step, and the last one
// continues.
template <class Optimizer, class Options>
void expect_rates(Options options) {
  const Tensor by_hand = parameter({19});
  const Tensor by_array = parameter({19});
  Optimizer expected({by_hand}, options);
  options.lr = kRates;
  Optimizer optimizer({by_array}, options);
  for (int i = 0; i < 5; ++i) {
    expected.set_lr(kRates[static_cast<std::size_t>(std::min(i, 2))]);
    EXPECT_EQ(optimizer.lr(), expected.lr());
    train_step(expected, by_hand, i);
    train_step(optimizer, by_array, i);
    EXPECT_EQ(by_array.to_vector<float>(), by_hand.to_vector<float>()) << "step " << i;
  }
  EXPECT_EQ(optimizer.updates(), 5);
}

TEST(LearningRate, IsANumberOrOneForEachUpdateInEveryOptimizer) {
  expect_rates<Sgd>(SgdOptions{.momentum = 0.9});
  expect_rates<Adam>(AdamOptions{.weight_decay = 0.1});
  expect_rates<AdamW>(AdamWOptions{.weight_decay = 0.1});
}

// Two steps, then three more from a checkpoint: rates 2, 3 and 4 of the array.
TEST(LearningRate, ACheckpointKnowsThePlaceInTheArray) {
  const Doubles rates{0.5, 0.1, 0.02, 0.3, 0.01, 0.2};
  expect_resuming_is_continuing<Sgd>(SgdOptions{.lr = rates, .momentum = 0.9});
  expect_resuming_is_continuing<Adam>(AdamOptions{.lr = rates});
  expect_resuming_is_continuing<AdamW>(AdamWOptions{.lr = rates, .weight_decay = 0.1});
}

TEST(LearningRate, EveryGroupHasItsOwn) {
  const Tensor a = parameter({2});
  const Tensor b = parameter({2});
  Sgd sgd(std::vector<Group<SgdOptions>>{{{a}, {.lr = {0.5, 0.25}}}, {{b}, {.lr = 1}}});
  train_step(sgd, a, 0);
  EXPECT_EQ(sgd.lr(0), 0.25);
  EXPECT_EQ(sgd.lr(1), 1);
}

TEST(LearningRate, SetLrReplacesTheArray) {
  const Tensor param = parameter({2});
  Sgd sgd({param}, {.lr = kRates});
  train_step(sgd, param, 0);
  sgd.set_lr(0.7);
  EXPECT_EQ(sgd.lr(), 0.7);
  train_step(sgd, param, 1);
  EXPECT_EQ(sgd.lr(), 0.7);
  sgd.set_lr({1, 2, 3, 4});  // for updates 0 to 3, two of which are done
  EXPECT_EQ(sgd.lr(), 3);
}

TEST(LearningRate, AStepWithoutGradientsIsNoUpdate) {
  const Tensor param = parameter({2});
  Sgd sgd({param}, {.lr = kRates});
  sgd.step();
  EXPECT_EQ(sgd.lr(), kRates[0]);
  EXPECT_TRUE(sgd.counters().empty());
}

TEST(LearningRate, RefusesWhatIsNone) {
  const Tensor param = parameter({2});
  EXPECT_THAT(message_of([] { LearningRate(Doubles{}); }), testing::HasSubstr("at least one"));
  EXPECT_THAT(message_of([&] {
                Sgd sgd({param}, {.lr = {0.1, -0.2}});
              }),
              testing::HasSubstr("must not be negative: lr -0.2"));
  EXPECT_THAT(message_of([&] {
                Adam adam({param}, {.lr = {0.1, std::nan("")}});
              }),
              testing::HasSubstr("must be finite: lr nan"));
  // Such rates would make parameters infinite.
  EXPECT_EQ(message_of([&] {
              Adam adam({param}, {.lr = {0.1, 1e39}});
            }),
            "[Adam] the learning rate must be finite in f32. Set a smaller one");
  Sgd sgd({param}, {.lr = double{std::numeric_limits<float>::max()}});
  EXPECT_THAT(message_of([&] {
                sgd.set_lr({0.1, -3});
              }),
              testing::HasSubstr("must not be negative: -3"));
  EXPECT_THAT(message_of([&] { sgd.set_counter("updates", -1); }),
              testing::HasSubstr("`updates` must not be negative"));
}

}  // namespace
}  // namespace mezzo::optim
