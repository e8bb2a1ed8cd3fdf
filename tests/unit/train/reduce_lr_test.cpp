// Compares ReduceLROnPlateau with PyTorch's, and tests what it refuses.
#include "mezzo/train/reduce_lr.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using testing::HasSubstr;
using PlateauOptions = ReduceLROnPlateau::Options;
using PlateauThreshold = ReduceLROnPlateau::Threshold;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A network with a parameter group for each rate.
struct PlateauGroups {
  explicit PlateauGroups(const std::vector<double>& rates) {
    const std::vector<Tensor> params = net.parameters();
    const std::size_t others = params.size() - rates.size() + 1;
    optimizer = std::make_unique<optim::Sgd>(
        std::vector<Tensor>(params.begin(), params.begin() + static_cast<std::ptrdiff_t>(others)),
        optim::SgdOptions{.lr = rates[0]});
    for (std::size_t g = 1; g < rates.size(); ++g) {
      optimizer->add_group({{params[others + g - 1]}, {.lr = rates[g]}});
    }
    model = std::make_unique<Model>(net, amp::class_loss, *optimizer,
                                    ModelOptions{.metrics = {"loss", "accuracy"}});
  }
  FitState begin() { return {.model = *model, .has_validation = true, .epoch_is_complete = true}; }

  test::StatefulNet net;
  std::unique_ptr<optim::Sgd> optimizer;
  std::unique_ptr<Model> model;
};

struct PlateauCase {
  PlateauOptions options;
  std::vector<double> values;              // of the metric, by epoch
  std::vector<std::vector<double>> rates;  // of each group, after each epoch
};

// Results of torch.optim.lr_scheduler.ReduceLROnPlateau of PyTorch 2.15.0, with `mode` `max` where
// prefers_low is false here.
std::vector<PlateauCase> cases_of_pytorch() {
  const std::vector<double> falling{1.0, 0.9, 0.9, 0.89995, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8};
  const std::vector<double> ones(10, 1.0);
  return {
      {{.patience = 1, .prefers_low = true},
       falling,
       {{0.1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002,
         0.010000000000000002, 0.0010000000000000002, 0.0010000000000000002,
         0.00010000000000000003}}},
      {{.factor = 0.5,
        .patience = 1,
        .threshold = 0.02,
        .threshold_mode = PlateauThreshold::kAbsolute,
        .prefers_low = true},
       falling,
       {{0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125}}},
      {{.factor = 0.5, .patience = 1, .cooldown = 2, .prefers_low = false},
       {0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2},
       {{0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025}}},
      {{.factor = 0.3,
        .patience = 0,
        .threshold = 0.05,
        .threshold_mode = PlateauThreshold::kAbsolute,
        .cooldown = 1,
        .prefers_low = false},
       {0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3},
       {{0.1, 0.1, 0.03, 0.03, 0.009, 0.009, 0.0026999999999999997, 0.0026999999999999997,
         0.0008099999999999998, 0.0008099999999999998}}},
      {{.patience = 1, .prefers_low = true},
       {kNoNumber, 1.0, kNoNumber, kNoNumber, 0.5, kInfinite, kInfinite, 0.5, 0.4, kNoNumber},
       {{0.1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002,
         0.0010000000000000002, 0.0010000000000000002, 0.0010000000000000002,
         0.0010000000000000002}}},
      {{.patience = 1, .min_lr = {0.02}, .prefers_low = true},
       {-1.0, -1.0, -1.00005, -1.1, -1.1, -1.1, -1.1, -1.1, -1.1, -1.1},
       {std::vector<double>(10, 0.1)}},
      {{.patience = 1, .min_lr = {0.0, 0.005}, .prefers_low = true},
       ones,
       {{0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.0010000000000000002,
         0.0010000000000000002, 0.00010000000000000003, 0.00010000000000000003,
         1.0000000000000004e-05, 1.0000000000000004e-05},
        {0.02, 0.02, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005}}},
      {{.patience = 0, .prefers_low = true},
       ones,
       {{0.1, 0.010000000000000002, 0.0010000000000000002, 0.00010000000000000003,
         1.0000000000000004e-05, 1.0000000000000004e-06, 1.0000000000000005e-07,
         1.0000000000000005e-08, 1.0000000000000005e-08, 1.0000000000000005e-08}}},
      {{.factor = 0.0, .patience = 1, .threshold = 1.0, .prefers_low = true},
       {kInfinite, kInfinite, kInfinite, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0},
       {{0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}}},
  };
}

TEST(ReduceLROnPlateau, GivesTheRatesOfPyTorch) {
  int number = 0;
  for (const PlateauCase& c : cases_of_pytorch()) {
    SCOPED_TRACE(testing::Message() << "case " << ++number);
    PlateauGroups groups(c.rates.size() == 1 ? std::vector{0.1} : std::vector{0.1, 0.02});
    ReduceLROnPlateau plateau(c.options);
    FitState state = groups.begin();
    plateau.on_train_begin(state);
    for (std::size_t i = 0; i < c.values.size(); ++i) {
      state.epoch = static_cast<std::int64_t>(i) + 1;
      state.metrics["loss"] = c.values[i];
      plateau.on_epoch_end(state);
      for (std::size_t g = 0; g < c.rates.size(); ++g) {
        EXPECT_EQ(groups.optimizer->lr(g), c.rates[g][i]) << "epoch " << i + 1 << " group " << g;
      }
    }
  }
}

// The direction is the metric's own. Epochs cut short by --steps, and those before the first one
// that counts, change nothing.
TEST(ReduceLROnPlateau, CountsWholeEpochsByTheDirectionOfTheMetric) {
  for (const bool low : {true, false}) {
    PlateauGroups groups({1.0});
    ReduceLROnPlateau plateau(
        {.monitor = low ? "loss" : "acc", .factor = 0.5, .patience = 0, .start_from_epoch = 2});
    FitState state = groups.begin();
    plateau.on_train_begin(state);
    EXPECT_EQ(plateau.monitor(), low ? "loss" : "accuracy");
    const auto end = [&](double value, bool is_complete = true) {
      state.metrics[plateau.monitor()] = value;
      state.epoch_is_complete = is_complete;
      ++state.epoch;
      plateau.on_epoch_end(state);
      return groups.optimizer->lr();
    };
    end(low ? 0 : 9);  // would be the best
    EXPECT_EQ(end(1), 1.0);
    EXPECT_EQ(end(1, false), 1.0);
    EXPECT_EQ(end(low ? 0.5 : 2), 1.0);
    EXPECT_EQ(end(low ? 2 : 0.5), 0.5);
    EXPECT_EQ(plateau.reductions(), 1);
  }
}

TEST(ReduceLROnPlateau, RefusesWhatWouldUndoIt) {
  Small small({0.1});
  ReduceLROnPlateau plateau({.monitor = "score"});
  const auto fit = [&](FitOptions options) {
    options.callbacks = {&plateau};
    return message_of<ArgumentError>([&] { small.model.fit(1, small.loader, options); });
  };
  EXPECT_THAT(fit({}), HasSubstr("`score` is a metric of the validation, and there is none"));
  EXPECT_THAT(fit({.lr = {0.1}, .validation = &small.test_loader}),
              HasSubstr("FitOptions::lr sets the rate of every step"));
  small.optimizer.set_lr({0.1, 0.2});
  EXPECT_THAT(fit({.validation = &small.test_loader}), HasSubstr("an array with one for every"));
  small.optimizer.set_lr(0.1);
  ReduceLROnPlateau unknown({.monitor = "score2"});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                small.model.fit(1, small.loader,
                                {.callbacks = {&unknown}, .validation = &small.test_loader});
              }),
              HasSubstr("has no metric `score2`"));
  ReduceLROnPlateau two({.monitor = "score", .min_lr = {0.1, 0.2}});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                small.model.fit(1, small.loader,
                                {.callbacks = {&two}, .validation = &small.test_loader});
              }),
              HasSubstr("min_lr has 2 rates, and the optimizer 1 groups"));
}

TEST(ReduceLROnPlateau, RefusesWrongOptions) {
  for (const PlateauOptions& options :
       {PlateauOptions{.factor = 1}, PlateauOptions{.factor = -0.1},
        PlateauOptions{.factor = kNoNumber}, PlateauOptions{.patience = -1},
        PlateauOptions{.threshold = -1}, PlateauOptions{.threshold = kInfinite},
        PlateauOptions{.cooldown = -1}, PlateauOptions{.min_lr = {}},
        PlateauOptions{.min_lr = {kNoNumber}}, PlateauOptions{.min_lr = {-1.0}},
        PlateauOptions{.eps = -1}, PlateauOptions{.start_from_epoch = 0}}) {
    EXPECT_THROW(ReduceLROnPlateau{options}, ArgumentError);
  }
}

TEST(ReduceLROnPlateau, LoadsAllOrNothing) {
  ReduceLROnPlateau plateau;
  io::Checkpoint whole;
  whole.values["plateau"] = {{"best", 2.0},
                             {"bad_epochs", std::int64_t{3}},
                             {"cooldown", std::int64_t{1}},
                             {"reductions", std::int64_t{2}},
                             {"groups", std::int64_t{1}},
                             {"lr.0", 0.25}};
  plateau.load(whole);
  io::Checkpoint part = whole;
  part.values["plateau"].erase("lr.0");
  EXPECT_THROW(plateau.load(part), FileError);
  io::Checkpoint after;
  plateau.save(after);
  EXPECT_EQ(after.values, whole.values);
}

}  // namespace
}  // namespace mezzo::train
