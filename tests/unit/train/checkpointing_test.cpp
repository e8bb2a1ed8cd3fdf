// Tests that restore() restores all of a checkpoint or nothing.
#include "mezzo/train/checkpointing.h"

#include <functional>
#include <limits>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/core/random.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/sampler.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/warnings.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/stateful_net.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor> params)>;

template <class Optimizer, class Options>
MakeOptimizer make(const Options& options) {
  return [=](std::vector<Tensor> params) {
    return std::make_unique<Optimizer>(std::move(params), options);
  };
}

MakeOptimizer adam() { return make<optim::Adam>(optim::AdamOptions{.lr = 0.01}); }

// A training with state of every kind.
class Training {
 public:
  explicit Training(const MakeOptimizer& make_optimizer, DType params = DType::kF32,
                    bool scales = true) {
    manual_seed(1);
    if (params != DType::kF32) amp::half_parameters(net, params);
    optimizer = make_optimizer(net.parameters());
    step = std::make_unique<amp::TrainStep>(net, amp::class_loss, *optimizer,
                                            amp::GradScaler({}, scales));
  }

  void do_steps(int count) {
    for (int i = 0; i < count; ++i) {
      data::Batch batch;
      ASSERT_TRUE(loader.next(batch));
      (*step)(batch.images, batch.labels);
    }
  }

  TrainingState state() { return {*step, loader}; }
  // A checkpoint as it is read from a file: with tensors of its own.
  io::Checkpoint saved() {
    return io::read_checkpoint(io::write_checkpoint(folder.path(), capture(state(), 0)));
  }

  std::unique_ptr<data::Dataset> digits = data::open_digits(data::Split::kTrain, 32);
  data::DataLoader loader{*digits, {.batch_size = 4, .seed = 5}};
  test::StatefulNet net;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<amp::TrainStep> step;
  data::TempFolder folder;
};

struct OptimizerCase {
  const char* name;
  MakeOptimizer make;
  DType params = DType::kF32;
};

std::vector<OptimizerCase> optimizers() {
  using enum optim::ParamUpdate;
  const auto sgd = [](optim::ParamUpdate rule) {
    return make<optim::Sgd>(
        optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .param_update = rule});
  };
  return {{"Sgd", sgd(kMaster)},
          {"Adam", adam()},
          {"Sgd with master copies", sgd(kMaster), DType::kBf16},
          {"Sgd with compensations", sgd(kKahan), DType::kBf16},
          {"Sgd with stochastic rounding", sgd(kStochastic), DType::kBf16}};
}

TEST(Restore, ForgetsTheOptimizersStateThatACheckpointLacks) {
  for (const OptimizerCase& c : optimizers()) {
    SCOPED_TRACE(c.name);
    Training training(c.make, c.params);
    const io::Checkpoint beginning = training.saved();
    training.do_steps(2);
    const auto first = amp::everything(training.net, *training.optimizer);
    EXPECT_FALSE(training.optimizer->state().empty());
    restore(training.state(), beginning);
    EXPECT_TRUE(training.optimizer->state().empty());
    EXPECT_EQ(training.optimizer->updates(), 0);
    training.do_steps(2);
    EXPECT_EQ(amp::everything(training.net, *training.optimizer), first);
  }
}

TEST(Restore, RefusesTheCheckpointOfAnotherOptimizer) {
  Training by_adam(adam());
  by_adam.do_steps(1);
  const io::Checkpoint checkpoint = by_adam.saved();
  Training by_adamw(make<optim::AdamW>(optim::AdamWOptions{}));
  EXPECT_THAT(
      message_of<ArgumentError>([&] { restore(by_adamw.state(), checkpoint); }),
      AllOf(HasSubstr("[resume] the checkpoint is of Adam with 6 parameters, this optimizer is "
                      "AdamW with 6. Make the same optimizer, or use another folder"),
            Not(HasSubstr("\n"))));
  Training of_fewer([](std::vector<Tensor> params) {
    params.pop_back();
    return std::make_unique<optim::Adam>(params);
  });
  EXPECT_THAT(message_of<ArgumentError>([&] { restore(of_fewer.state(), checkpoint); }),
              HasSubstr("is of Adam with 6 parameters, this optimizer is Adam with 5"));
}

// With another order, a position would mean another batch.
TEST(Restore, RefusesAnotherOrderOfBatches) {
  Training training(adam());
  const io::Checkpoint checkpoint = training.saved();
  const data::LoaderOptions same{.batch_size = 4, .seed = 5};
  const auto error_of = [&](const data::LoaderOptions& options) {
    data::DataLoader loader(*training.digits, options);
    return message_of<ArgumentError>([&] { restore({*training.step, loader}, checkpoint); });
  };
  data::LoaderOptions options = same;
  options.shuffle = false;
  EXPECT_THAT(error_of(options), HasSubstr("the loader was one with shuffle 1, now it is 0"));
  options = same;
  options.drop_remainder = true;
  EXPECT_THAT(error_of(options), HasSubstr("with drop_remainder 0, now it is 1"));
  options = same;
  options.seed = 6;
  EXPECT_THAT(error_of(options), HasSubstr("with seed 5, now it is 6"));
}

TEST(Restore, RefusesAnotherSampler) {
  Training training(adam());
  const auto loader_by = [&](std::shared_ptr<const data::Sampler> sampler) {
    return std::make_unique<data::DataLoader>(
        *training.digits,
        data::LoaderOptions{.batch_size = 4, .seed = 5, .sampler = std::move(sampler)});
  };
  const std::vector<double> weights(32, 1);
  std::vector<double> others = weights;
  others[3] = 2;
  const auto drawn = loader_by(data::weighted_sampler(weights));
  const io::Checkpoint checkpoint = io::read_checkpoint(
      io::write_checkpoint(training.folder.path(), capture({*training.step, *drawn}, 0)));
  restore({*training.step, *loader_by(data::weighted_sampler(weights))}, checkpoint);
  const auto error_of = [&](std::shared_ptr<const data::Sampler> sampler,
                            const io::Checkpoint& from) {
    const auto loader = loader_by(std::move(sampler));
    return message_of<ArgumentError>([&] { restore({*training.step, *loader}, from); });
  };
  EXPECT_THAT(
      error_of(data::weighted_sampler(others), checkpoint),
      HasSubstr("the loader was one with sampler weighted sampler (32 draws from 32 weights"));
  EXPECT_THAT(error_of(nullptr, checkpoint), HasSubstr("now it is none. Make the same loader"));
  const auto by_length = data::length_buckets(std::vector<std::int64_t>(32, 1));
  EXPECT_THAT(error_of(by_length, checkpoint), HasSubstr("now it is length buckets (pools of 50"));
  // A checkpoint from before samplers existed.
  io::Checkpoint earlier = training.saved();
  EXPECT_EQ(earlier.values.at("loader").erase("sampler"), 1U);
  restore(training.state(), earlier);
  EXPECT_THAT(error_of(by_length, earlier), HasSubstr("with sampler none, now it is length"));
}

TEST(Restore, TakesCheckpointsThatDoNotSayWhoseTheyAre) {
  Training training(adam());
  training.do_steps(2);
  io::Checkpoint checkpoint = training.saved();
  EXPECT_EQ(checkpoint.values.erase("optimizer_kind"), 1U);
  const auto expected = amp::everything(training.net, *training.optimizer);
  Training other(adam());
  restore(other.state(), checkpoint);
  EXPECT_EQ(amp::everything(other.net, *other.optimizer), expected);
}

TEST(Restore, SaysThatOneRunScalesAndTheOtherDoesNot) {
  Training scaled(adam());
  scaled.do_steps(2);
  Training plain(adam(), DType::kF32, false);
  plain.do_steps(1);
  const io::Checkpoint of_plain = plain.saved();
  EXPECT_THAT(message_of<ArgumentError>([&] { restore(scaled.state(), of_plain); }),
              HasSubstr("[resume] the checkpoint is of a run without loss scaling"));
  restore(plain.state(), scaled.saved());
  EXPECT_THAT(amp::warnings.text(), HasSubstr("the checkpoint is of a run with loss scaling"));
  EXPECT_EQ(amp::everything(plain.net, *plain.optimizer),
            amp::everything(scaled.net, *scaled.optimizer));
}

struct Damage {
  const char* what;
  std::function<void(io::Checkpoint&)> apply;
};

// Ways in which a checkpoint does not match, each found in a different place.
std::vector<Damage> damages() {
  const auto tensors = [](io::Checkpoint& c, std::size_t group) -> std::vector<NamedTensor>& {
    return c.groups.at(group).tensors;
  };
  return {
      {"a parameter is missing", [=](auto& c) { tensors(c, 0).pop_back(); }},
      {"a parameter has another shape", [=](auto& c) { tensors(c, 0).back().tensor = ones({3}); }},
      {"a state has another shape", [=](auto& c) { tensors(c, 1).back().tensor = ones({3}); }},
      {"a state has another name", [=](auto& c) { tensors(c, 1).back().name = "momentum.0"; }},
      {"no state is there", [](auto& c) { c.groups.pop_back(); }},
      {"a counter has another name", [](auto& c) { c.values["optimizer"]["zeal"] = 1L; }},
      {"a counter is negative", [](auto& c) { c.values["optimizer"]["updates"] = -1L; }},
      {"the scale is missing", [](auto& c) { c.values["scaler"].erase("scale"); }},
      {"the scale is no scale", [](auto& c) { c.values["scaler"]["scale"] = -2.0; }},
      {"no step is there", [](auto& c) { c.values.erase("step"); }},
      {"steps are negative", [](auto& c) { c.values["step"]["skipped_in_a_row"] = -1L; }},
      {"the place is nowhere", [](auto& c) { c.values["loader"]["step"] = 9L; }},
      {"random numbers are missing", [](auto& c) { c.random.clear(); }},
  };
}

TEST(Restore, ThatFailsChangesNothing) {
  Training other(adam());
  other.do_steps(4);
  const io::Checkpoint good = other.saved();
  Training training(adam());
  training.do_steps(2);
  const auto before = amp::everything(training.net, *training.optimizer);
  const auto scale = training.step->scaler().state_dict();
  const RandomPosition random = default_generator().position();
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.what);
    io::Checkpoint checkpoint = good;
    damage.apply(checkpoint);
    EXPECT_THROW(restore(training.state(), checkpoint), Error);
    EXPECT_EQ(amp::everything(training.net, *training.optimizer), before);
    EXPECT_EQ(training.step->scaler().state_dict(), scale);
    EXPECT_EQ(training.step->skipped_in_a_row(), 0);
    EXPECT_EQ(training.loader.position(), (data::LoaderPosition{.epoch = 0, .step = 2}));
    EXPECT_EQ(default_generator().position(), random);
  }
  restore(training.state(), good);
  EXPECT_EQ(amp::everything(training.net, *training.optimizer),
            amp::everything(other.net, *other.optimizer));
}

}  // namespace
}  // namespace mezzo::train
