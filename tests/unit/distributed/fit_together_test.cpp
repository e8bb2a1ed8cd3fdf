// Tests Model::fit() and eval() of processes that train together.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/tensor_batches.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/nn/nn.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/early_stopping.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "mezzo/train/moving_average.h"
#include "mezzo/train/reduce_lr.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/warnings.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/io/stateful_net.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;
using distributed::ProcessGroup;
using test::in_processes;
using test::results_of;
using testing::HasSubstr;
using Values = std::vector<std::vector<double>>;

constexpr std::int64_t kExamples = 22;

struct Examples {
  Tensor images;
  Tensor labels;
};

Examples some_examples() {
  Generator generator(5);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kExamples; ++i) labels.push_back(i % 10);
  return {randn({kExamples, 1, 28, 28}, generator), from_values(labels, {kExamples})};
}

// The training of this process, with three images per step, and dropout and batch norm in the
// network.
struct Training {
  explicit Training(ProcessGroup* group, bool has_shard = true)
      : shard(group != nullptr && has_shard ? data::shard_of(*group) : data::Shard{}),
        model(seeded(net), amp::class_loss, optimizer, {.amp = {.step = {.processes = group}}}) {}

  static nn::Module& seeded(nn::Module& net) {
    manual_seed(9);
    Generator generator(2);
    for (const Tensor& param : net.parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.1, param);
    }
    return net;
  }

  data::Shard shard;
  Examples examples = some_examples();
  data::TensorBatches loader{
      examples.images, examples.labels, {.batch_size = 3, .drop_remainder = true, .shard = shard}};
  data::TensorBatches all{
      examples.images, examples.labels, {.batch_size = 4, .shuffle = false, .shard = shard}};
  test::StatefulNet net;
  optim::Sgd optimizer{net.parameters(), {.lr = 0.05, .momentum = 0.9}};
  Model model;
};

class FitTogether : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  const std::string folder_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

// 22 examples in batches of 4 for each of 2 or 3 processes: in the last step some have fewer or
// none.
TEST_F(FitTogether, EvaluationIsOfAllExamples) {
  Training single(nullptr);
  const auto expected = single.model.eval(single.all);
  for (const int size : {2, 3, 7}) {
    in_processes(size, [&](ProcessGroup& group) {
      Training training(&group);
      const auto metrics = training.model.eval(training.all);
      EXPECT_EQ(metrics.at("accuracy"), expected.at("accuracy")) << size;
      EXPECT_NEAR(metrics.at("loss"), expected.at("loss"), 1e-6 * expected.at("loss"));
    });
  }
}

TEST_F(FitTogether, EvaluationOfWholeSetsAddsNothingUp) {
  Training single(nullptr);
  const auto expected = single.model.eval(single.all);
  in_processes(2, [&](ProcessGroup& group) {
    Training training(&group, false);
    EXPECT_EQ(training.model.eval(training.all), expected);
  });
}

// The first process writes checkpoints, so it must not wait for the part of a failed one.
TEST_F(FitTogether, AnEvaluationThatFailsInOneFailsInAllAndIsSaved) {
  const auto saved = results_of<bool>(2, [](ProcessGroup& group) {
    Training training(&group);
    bool is_told = false;
    LambdaCallback callback({.on_evaluation_failed = [&](FitState&) { is_told = true; }});
    auto labels = training.examples.labels.to_vector<std::int64_t>();
    if (group.rank() == 1) labels[13] = 99;  // in its second batch, which is not tried
    data::TensorBatches bad(training.examples.images, from_values(labels, {kExamples}),
                            {.batch_size = 4, .shuffle = false, .shard = training.shard});
    const std::string message = message_of<Error>([&] {
      training.model.fit(1, training.loader, {.callbacks = {&callback}, .validation = &bad});
    });
    EXPECT_THAT(message,
                HasSubstr(group.rank() == 1 ? "99" : "[Model] another process has failed"));
    return is_told;
  });
  EXPECT_TRUE(saved[0]);
  EXPECT_TRUE(saved[1]);
}

TEST_F(FitTogether, AMetricMustSayHowItIsAddedUp) {
  class Count final : public Metric {
   public:
    std::string name() const override { return "count"; }
    void reset() override {}
    void update(const Tensor&, const Tensor&, const amp::BatchLoss&) override {}
    double value() const override { return 0; }
  };
  in_processes(2, [](ProcessGroup& group) {
    Training training(&group);
    training.model.add_metric(std::make_unique<Count>());
    EXPECT_THAT(
        message_of<UnsupportedError>([&] { training.model.eval(training.all); }),
        HasSubstr(
            "[metrics] `count` does not say how to combine the results of several processes"));
    // It fails before the first step.
    bool has_begun = false;
    LambdaCallback watch({.on_train_begin = [&](FitState&) { has_begun = true; }});
    EXPECT_THAT(message_of<UnsupportedError>([&] {
                  training.model.fit(1, training.loader,
                                     {.callbacks = {&watch}, .validation = &training.all});
                }),
                HasSubstr("[metrics] `count` does not say how"));
    EXPECT_FALSE(has_begun);
  });
}

// An error in one process alone, in a callback or in its part of the validation.
TEST_F(FitTogether, WhatOneFindsBeforeTheFirstStepFailsInAll) {
  in_processes(3, [](ProcessGroup& group) {
    const auto refusal = [&](bool in_callback) {
      Training training(&group);
      bool has_begun = false;
      LambdaCallback callback({.check =
                                   [&](FitState&) {
                                     check_arg(!in_callback || group.rank() != 1, "callback",
                                               "cannot work here. Leave it out");
                                   },
                               .on_train_begin = [&](FitState&) { has_begun = true; }});
      auto labels = training.examples.labels.to_vector<std::int64_t>();
      if (!in_callback && group.rank() == 1) labels.assign(labels.size(), 99);
      data::TensorBatches validation(training.examples.images, from_values(labels, {kExamples}),
                                     {.batch_size = 4, .shuffle = false, .shard = training.shard});
      const std::string message = message_of<Error>([&] {
        training.model.fit(1, training.loader,
                           {.callbacks = {&callback}, .validation = &validation});
      });
      EXPECT_FALSE(has_begun);
      return message;
    };
    const bool has_found_it = group.rank() == 1;
    EXPECT_THAT(refusal(true), HasSubstr(has_found_it ? "[callback] cannot work here"
                                                      : "[Model] another process has failed"));
    EXPECT_THAT(refusal(false), HasSubstr(has_found_it ? "This is the first batch"
                                                       : "[Model] another process has failed"));
  });
}

// Weights are the same everywhere, even with dropout, which each process draws by itself. After an
// evaluation, so are the statistics of batch norm.
TEST_F(FitTogether, EverybodyHasTheSameNetworkInTheEnd) {
  const auto states = results_of<Values>(2, [](ProcessGroup& group) {
    Training training(&group);
    training.model.fit(2, training.loader, {.validation = &training.all});
    return amp::everything(training.net, training.optimizer);
  });
  EXPECT_EQ(states[0], states[1]);
}

TEST_F(FitTogether, EachProcessTakesItsOwnRandomNumbers) {
  const auto during = results_of<RandomPosition>(3, [](ProcessGroup& group) {
    Training training(&group);
    RandomPosition seen;
    LambdaCallback look({.on_step_end = [&](FitState&) { seen = default_generator().position(); }});
    const RandomPosition before = default_generator().position();
    training.model.fit(1, training.loader, {.callbacks = {&look}});
    EXPECT_EQ(default_generator().position().seed, before.seed);
    EXPECT_EQ(default_generator().position().offset, seen.offset);
    return seen;
  });
  EXPECT_EQ(during[0].seed, 9U);
  EXPECT_NE(during[1].seed, during[0].seed);
  EXPECT_NE(during[2].seed, during[0].seed);
  EXPECT_NE(during[2].seed, during[1].seed);
  EXPECT_EQ(during[1].offset, during[0].offset);
}

// Wherever it stops: after a step, between epochs, before the first epoch.
TEST_F(FitTogether, ACallbackThatStopsOneStopsAll) {
  const auto steps_with =
      [](const std::function<LambdaCallback::Functions(const LambdaCallback::Function& stop)>&
             where) {
        return results_of<std::int64_t>(2, [&](ProcessGroup& group) {
          Training training(&group);
          LambdaCallback callback(
              where([&](FitState& state) { state.stop = group.rank() == 1 && state.step != 1; }));
          return training.model.fit(3, training.loader, {.callbacks = {&callback}}).steps;
        });
      };
  using Functions = LambdaCallback::Functions;
  using Both = std::vector<std::int64_t>;
  EXPECT_EQ(steps_with([](const auto& stop) { return Functions{.on_step_end = stop}; }),
            (Both{2, 2}));
  EXPECT_EQ(steps_with([](const auto& stop) { return Functions{.on_epoch_end = stop}; }),
            (Both{3, 3}));
  EXPECT_EQ(steps_with([](const auto& stop) { return Functions{.on_epoch_begin = stop}; }),
            (Both{0, 0}));
}

// The first process writes, all read. A training in two parts equals the unbroken one bit for bit.
TEST_F(FitTogether, GoesOnFromTheCheckpointOfTheFirst) {
  const auto train = [&](std::int64_t epochs, const std::string& resume) {
    return results_of<Values>(2, [&](ProcessGroup& group) {
      Training training(&group);
      ModelCheckpoint checkpoints({.folder = folder_, .keep = 0});
      training.model.fit(
          epochs, training.loader,
          {.callbacks = {&checkpoints}, .validation = &training.all, .resume = resume});
      return amp::everything(training.net, training.optimizer);
    });
  };
  const auto whole = train(3, "");
  EXPECT_EQ(io::list_checkpoints(folder_).size(), 3U);
  fs::remove_all(folder_);
  train(1, "");
  EXPECT_EQ(train(3, folder_), whole);
}

// Reactions to the validation are the same in all processes: averages, rates and stops agree, and
// continue with the same bits after a resume. The second process has its own running statistics
// until an evaluation.
TEST_F(FitTogether, WhatFollowsTheValidationIsTheSameInAll) {
  const auto train = [&](std::int64_t epochs, const std::string& resume) {
    return results_of<Values>(2, [&](ProcessGroup& group) {
      Training training(&group);
      ModelCheckpoint checkpoints({.folder = folder_, .keep = 0});
      ExponentialMovingAverage average({.weights = {.decay = 0.9, .average_buffers = false}});
      ReduceLROnPlateau plateau({.factor = 0.5, .patience = 0, .threshold = 1});
      EarlyStopping stopping({.patience = 3, .min_delta = 100, .restore_best = true});
      const FitResult result =
          training.model.fit(epochs, training.loader,
                             {.callbacks = {&checkpoints, &average, &plateau, &stopping},
                              .validation = &training.all,
                              .resume = resume});
      Values values{
          {result.metrics.at("loss"), training.optimizer.lr(), static_cast<double>(result.steps)}};
      for (const Tensor& param : training.net.parameters()) {
        values.push_back(param.to_vector<double>());
      }
      for (const NamedTensor& entry : average.state()) {
        if (entry.name.find("running") == std::string::npos) {
          values.push_back(entry.tensor.to_vector<double>());
        }
      }
      return values;
    });
  };
  const auto whole = train(9, "");
  EXPECT_EQ(whole[0], whole[1]);
  EXPECT_EQ(whole[0][0][2], 4 * 3) << "it is meant to end after the fourth epoch";
  EXPECT_LT(whole[0][0][1], 0.05);
  fs::remove_all(folder_);
  train(2, "");
  EXPECT_EQ(train(9, folder_), whole);
}

TEST_F(FitTogether, ACheckpointIsOfStepsOfThatManyExamples) {
  in_processes(2, [&](ProcessGroup& group) {
    Training training(&group);
    ModelCheckpoint checkpoints({.folder = folder_});
    training.model.fit(1, training.loader, {.callbacks = {&checkpoints}});
  });
  Training single(nullptr);
  EXPECT_THAT(
      message_of<ArgumentError>([&] { single.model.fit(2, single.loader, {.resume = folder_}); }),
      HasSubstr("[resume] the loader was one with step_size 6, now it is 3. Processes times batch "
                "size must stay the same"));
}

TEST_F(FitTogether, TheLastBatchOfAnEpochMustBeFull) {
  in_processes(2, [](ProcessGroup& group) {
    Training training(&group);
    EXPECT_THAT(message_of<ArgumentError>([&] { training.model.fit(1, training.all); }),
                HasSubstr("Use drop_remainder"));
  });
}

// Each of these would make other processes wait, or mix up what they exchange.
TEST_F(FitTogether, OtherTrainingsAreRefusedEverywhere) {
  in_processes(2, [](ProcessGroup& group) {
    Training training(&group);
    const auto error_of = [&](std::int64_t epochs, data::TensorBatches& loader,
                              const FitOptions& options) {
      return message_of<ArgumentError>([&] { training.model.fit(epochs, loader, options); });
    };
    EXPECT_THAT(error_of(1 + group.rank(), training.loader, {}),
                HasSubstr("[Model] the step that training ends with of process 1 is 6, that of "
                          "process 0 3"));
    data::TensorBatches other(
        training.examples.images, training.examples.labels,
        {.batch_size = 5 + group.rank(), .drop_remainder = true, .shard = training.shard});
    EXPECT_THAT(
        error_of(1, other, {.steps = 1}),
        HasSubstr("the number of steps of an epoch of process 1 is 1, that of process 0 2"));
    data::TensorBatches larger(
        training.examples.images, training.examples.labels,
        {.batch_size = 10 + group.rank(), .drop_remainder = true, .shard = training.shard});
    EXPECT_THAT(error_of(1, larger, {}), HasSubstr("the batch size of process 1 is 11"));
    data::TensorBatches unshuffled(training.examples.images, training.examples.labels,
                                   {.batch_size = 3,
                                    .shuffle = group.rank() == 0,
                                    .drop_remainder = true,
                                    .shard = training.shard});
    EXPECT_THAT(error_of(1, unshuffled, {}), HasSubstr("shuffling (1) or not (0) of process 1"));
    data::TensorBatches seeded(training.examples.images, training.examples.labels,
                               {.batch_size = 3,
                                .drop_remainder = true,
                                .seed = std::uint64_t{1} << (group.rank() == 0 ? 2 : 62),
                                .shard = training.shard});
    EXPECT_THAT(error_of(1, seeded, {}), HasSubstr("the seed of the loader (its upper half)"));
    training.optimizer.set_lr(group.rank() == 0 ? 0.05 : 0.1);
    EXPECT_THAT(error_of(1, training.loader, {}),
                HasSubstr("the learning rate of process 1 is 0.1, that of process 0 0.05"));
    FitOptions validation;
    training.optimizer.set_lr(0.05);
    if (group.rank() == 1) validation.validation = &training.all;
    EXPECT_THAT(error_of(1, training.loader, validation),
                HasSubstr("the number of shards that are validated of process 1 is 2"));
  });
}

TEST_F(FitTogether, AGroupOfOneTrainsAlone) {
  in_processes(1, [](ProcessGroup& group) {
    Training training(&group);
    EXPECT_EQ(training.model.train_step().options().processes, nullptr);
    EXPECT_EQ(training.model.fit(1, training.all).steps, 6);  // the last one is not full
  });
}

TEST_F(FitTogether, WarnsWhereAllTrainOnTheSameExamples) {
  in_processes(2, [](ProcessGroup& group) {
    Training training(&group, false);
    training.model.fit(1, training.loader);
  });
  EXPECT_THAT(amp::warnings.text(), HasSubstr("2 processes train on 1 shards"));
}

}  // namespace
}  // namespace mezzo::train
