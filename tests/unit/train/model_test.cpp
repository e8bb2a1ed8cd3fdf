#include "mezzo/train/model.h"

#include <chrono>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/models/mlp.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor loss_function(const Tensor& logits, const Tensor& labels) {
  return cross_entropy(logits, labels);
}

// A hundred images of `digits`, four steps per epoch.
class Fixture {
 public:
  Fixture() {
    data::ImageTable table;
    const auto digits = data::open_dataset("digits", data::Split::kTrain);
    table.image_shape = digits->image_shape();
    table.num_classes = digits->num_classes();
    table.normalization = digits->normalization();
    const auto bytes = static_cast<std::size_t>(table.image_shape.numel());
    table.pixels.resize(kImages * bytes);
    Generator generator;
    for (std::size_t i = 0; i < kImages; ++i) {
      const std::span<std::uint8_t> image(table.pixels.data() + i * bytes, bytes);
      table.labels.push_back(
          static_cast<std::uint8_t>(digits->read(static_cast<std::int64_t>(i), generator, image)));
    }
    dataset = std::make_unique<data::MemoryDataset>(std::move(table));
    loader = std::make_unique<data::DataLoader>(*dataset,
                                                data::LoaderOptions{.batch_size = 25, .seed = 3});
    manual_seed(4);
    net = std::make_unique<models::Mlp>();
    optimizer = std::make_unique<optim::Sgd>(net->parameters(), optim::SgdOptions{.lr = 0.05});
  }

  static constexpr std::size_t kImages = 100;
  std::unique_ptr<data::MemoryDataset> dataset;
  std::unique_ptr<data::DataLoader> loader;
  std::unique_ptr<models::Mlp> net;
  std::unique_ptr<optim::Sgd> optimizer;
};

// Records every call.
class Diary final : public Callback {
 public:
  void on_train_begin(FitState& state) override { note("train", state); }
  void on_epoch_begin(FitState& state) override { note("epoch", state); }
  void on_step_begin(FitState& state) override { note("step", state); }
  void on_step_end(FitState& state) override { note("done", state); }
  void on_epoch_end(FitState& state) override { note("end", state); }
  void on_train_end(FitState& state) override { note("bye", state); }
  std::vector<std::string> lines;

 private:
  void note(const char* what, const FitState& state) {
    lines.push_back(concat(what, " ", state.epoch, ".", state.step_in_epoch, " ", state.step));
  }
};

TEST(Model, TrainsEvaluatesAndPredicts) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer, {.amp = {.level = "O2", .dtype = DType::kBf16}});
  const double before = model.eval(*f.loader).at("loss");
  const FitResult result = model.fit(8, *f.loader, {.validation = f.loader.get()});
  EXPECT_EQ(result.steps, 32);
  EXPECT_EQ(result.epochs, 8);
  EXPECT_LT(result.metrics.at("loss"), before);
  EXPECT_GT(result.metrics.at("accuracy"), 0.3);
  const Tensor logits = model.predict(zeros({2, 1, 28, 28}));
  EXPECT_EQ(logits.shape(), (Shape{2, 10}));
  EXPECT_EQ(logits.dtype(), DType::kF32);
  EXPECT_FALSE(logits.requires_grad());
}

TEST(Model, CallsItsCallbacksInOrder) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  Diary diary;
  model.fit(2, *f.loader, {.callbacks = {&diary}, .steps = 5});
  EXPECT_THAT(diary.lines, ElementsAre("train 0.0 0", "epoch 1.0 0", "step 1.1 1", "done 1.1 1",
                                       "step 1.2 2", "done 1.2 2", "step 1.3 3", "done 1.3 3",
                                       "step 1.4 4", "done 1.4 4", "end 1.4 4", "epoch 2.0 4",
                                       "step 2.1 5", "done 2.1 5", "end 2.1 5", "bye 2.0 5"));
}

TEST(Model, ValidatesOnWhatItTrainsOnWithoutTouchingTheOrder) {
  Fixture fixture;
  Model model(*fixture.net, loss_function, *fixture.optimizer);
  std::vector<std::int64_t> epochs;
  LambdaCallback watch(
      {.on_epoch_begin = [&](FitState&) { epochs.push_back(fixture.loader->position().epoch); }});
  model.fit(3, *fixture.loader, {.callbacks = {&watch}, .validation = fixture.loader.get()});
  EXPECT_THAT(epochs, testing::ElementsAre(0, 1, 2));
}

TEST(Model, EvaluatesAllFromWhereverTheLoaderStands) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  const auto whole = model.eval(*f.loader);
  f.loader->seek({.epoch = 0, .step = 3});
  EXPECT_EQ(model.eval(*f.loader), whole);
  EXPECT_EQ(f.loader->position(), (data::LoaderPosition{.epoch = 0, .step = 3}));
}

// The step's policy applies to the network wherever it computes; the loss is f32.
TEST(Model, EvaluatesAndPredictsAtTheLevelOfItsStep) {
  Fixture f;
  const amp::Policy policy{.level = amp::Level::kO3, .lower = DType::kBf16};
  std::vector<DType> seen;
  const auto loss = [&](const Tensor& logits, const Tensor& labels) {
    seen.push_back(matmul(logits, ones({10, 1})).dtype());
    return cross_entropy(logits, labels);
  };
  Model plain(*f.net, loss, *f.optimizer);
  Model model(
      amp::TrainStep(*f.net, loss, *f.optimizer, amp::GradScaler({}, false), {.policy = policy}),
      loss);
  const Tensor input = full({1, 1, 28, 28}, 0.3);
  const NoGrad no_grad;
  EXPECT_EQ(model.predict(input).to_vector<float>(),
            amp::forward(*f.net, input, policy).to_vector<float>());
  EXPECT_NE(model.predict(input).to_vector<float>(), plain.predict(input).to_vector<float>());
  EXPECT_NE(model.eval(*f.loader), plain.eval(*f.loader));
  const amp::Autocast region(DType::kF16);
  model.eval(*f.loader);
  EXPECT_THAT(seen, testing::Each(DType::kF32));
}

TEST(Model, CountsStepsThatAreSkippedForTheirLoss) {
  Fixture f;
  const auto endless = [](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels) * std::numeric_limits<double>::infinity();
  };
  Model model(*f.net, endless, *f.optimizer);
  EXPECT_EQ(model.fit(1, *f.loader).skipped_steps, 4);
}

TEST(Model, TwoFitsAreOneLongOne) {
  Fixture once;
  Fixture twice;
  Model a(*once.net, loss_function, *once.optimizer);
  Model b(*twice.net, loss_function, *twice.optimizer);
  a.fit(3, *once.loader);
  b.fit(1, *twice.loader);
  b.fit(2, *twice.loader);
  EXPECT_EQ(once.net->parameters()[0].to_vector<float>(),
            twice.net->parameters()[0].to_vector<float>());
}

TEST(Model, GoesOnInTheMiddleOfAnEpoch) {
  Fixture f;
  f.loader->seek({.epoch = 0, .step = 3});
  Model model(*f.net, loss_function, *f.optimizer);
  EXPECT_EQ(model.fit(2, *f.loader).steps, 5);
  EXPECT_EQ(f.loader->position(), (data::LoaderPosition{.epoch = 2, .step = 0}));
}

TEST(Model, TakesALearningRateForEachStep) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  std::vector<double> seen;
  LambdaCallback watch({.on_step_end = [&](FitState& state) { seen.push_back(state.lr); }});
  model.fit(1, *f.loader, {.callbacks = {&watch}, .lr = {0.1, 0.2, 0.05}});
  EXPECT_THAT(seen, ElementsAre(0.1, 0.2, 0.05, 0.05));
}

TEST(Model, SeesTheLearningRateThatACallbackHasSet) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  std::vector<double> seen;
  LambdaCallback script({.on_step_begin =
                             [](FitState& state) {
                               state.model.optimizer().set_lr(0.5 *
                                                              static_cast<double>(state.step));
                             },
                         .on_step_end = [&](FitState& state) { seen.push_back(state.lr); }});
  model.fit(1, *f.loader, {.callbacks = {&script}, .steps = 3});
  EXPECT_THAT(seen, ElementsAre(0.5, 1, 1.5));
}

TEST(Model, ChecksAllLearningRatesBeforeItTrains) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  for (const double bad : {-1.0, std::nan(""), 1e39}) {
    const auto before = f.net->parameters()[0].to_vector<float>();
    Diary diary;
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  model.fit(1, *f.loader, {.callbacks = {&diary}, .lr = {0.1, 0.2, bad}});
                }),
                HasSubstr(concat("[Model] the learning rate of step 3 is ", bad)));
    EXPECT_THAT(diary.lines, ElementsAre());
    EXPECT_EQ(f.net->parameters()[0].to_vector<float>(), before);
  }
}

TEST(Model, FindsAMetricByEveryNameThatItCanBeMadeBy) {
  Fixture f;
  const Model model(*f.net, loss_function, *f.optimizer, {.metrics = {"acc", "top05", "loss"}});
  for (const char* name : {"acc", "accuracy", "top1"}) {
    EXPECT_EQ(model.metric(name).name(), "accuracy") << name;
  }
  EXPECT_EQ(model.metric("top05").name(), "top5");
  EXPECT_THAT(message_of<ArgumentError>([&] { model.metric("acuracy"); }),
              HasSubstr("no metric `acuracy`"));
  EXPECT_THAT(message_of<ArgumentError>([&] { model.metric("top3"); }),
              HasSubstr("no metric `top3`"));
}

TEST(Model, LayersThatWereSetToEvalStaySo) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  nn::Module& layer = *f.net->children()[0].module;
  layer.eval();
  std::vector<bool> modes;
  LambdaCallback watch({.on_step_begin = [&](FitState&) {
    modes.push_back(f.net->is_training());
    modes.push_back(layer.is_training());
  }});
  model.fit(2, *f.loader, {.callbacks = {&watch}, .steps = 5, .validation = f.loader.get()});
  model.predict(zeros({1, 1, 28, 28}));
  EXPECT_TRUE(f.net->is_training());
  EXPECT_FALSE(layer.is_training());
  const std::vector<bool> one{true, false};
  for (std::size_t i = 0; i < modes.size(); ++i) EXPECT_EQ(modes[i], one[i % 2]) << i;
  f.net->eval();  // all of it, which training reverses
  model.fit(1, *f.loader, {.steps = 1});
  EXPECT_TRUE(layer.is_training());
}

TEST(Model, ACallbackCanEndTheTraining) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  LambdaCallback stop({.on_step_end = [](FitState& state) { state.stop = state.step == 2; }});
  Diary diary;
  const FitResult result =
      model.fit(5, *f.loader, {.callbacks = {&stop, &diary}, .validation = f.loader.get()});
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 2);
  // The epoch was stopped in its middle: it has no end and no evaluation.
  EXPECT_THAT(diary.lines, ElementsAre("train 0.0 0", "epoch 1.0 0", "step 1.1 1", "done 1.1 1",
                                       "step 1.2 2", "done 1.2 2", "bye 1.2 2"));
  EXPECT_TRUE(result.metrics.empty());
}

// An epoch without any step does not count: a resumed run would otherwise leave it out.
TEST(Model, AnEpochThatWasStoppedAtItsBeginIsNotDone) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  io::Checkpoint last;
  LambdaCallback stop({.on_epoch_begin = [](FitState& state) { state.stop = state.epoch == 2; },
                       .on_train_end = [&](FitState& state) { last = state.capture(); }});
  Diary diary;
  model.fit(5, *f.loader, {.callbacks = {&stop, &diary}});
  EXPECT_THAT(std::vector(diary.lines.end() - 3, diary.lines.end()),
              ElementsAre("end 1.4 4", "epoch 2.0 4", "bye 2.0 4"));
  EXPECT_EQ(last.value<std::int64_t>("progress", "epochs"), 1);
}

// The first fit() is valid, and then half_parameters() replaces what the optimizer holds.
TEST(Model, RefusesAnOptimizerOfParametersThatWereReplaced) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  model.fit(1, *f.loader);
  amp::half_parameters(*f.net, DType::kBf16);
  EXPECT_THAT(message_of<ArgumentError>([&] { model.fit(1, *f.loader); }),
              HasSubstr("the optimizer holds none of the network's"));
}

// Ten examples in batches of five, so the third shard gets none.
TEST(Model, RefusesAShardWithoutBatches) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  data::TensorBatches batches(zeros({10, 784}), zeros({10}, DType::kI64),
                              {.batch_size = 5, .shard = {.index = 2, .count = 3}});
  EXPECT_EQ(message_of<ArgumentError>([&] { model.fit(1, batches); }),
            "[Model] an epoch has no batch for shard 2 of 3. Use fewer shards, or smaller batches");
}

TEST(Model, RefusesWhatItCannotDo) {
  Fixture f;
  EXPECT_THROW(Model(*f.net, loss_function, *f.optimizer, {.metrics = {"acuracy"}}), ArgumentError);
  EXPECT_THROW(Model(*f.net, loss_function, *f.optimizer, {.metrics = {"loss", "loss"}}),
               ArgumentError);
  EXPECT_THROW(Model(*f.net, loss_function, *f.optimizer, {.amp = {.level = "O7"}}), ArgumentError);
  EXPECT_THROW(Model(*f.net, nullptr, *f.optimizer), ArgumentError);
  EXPECT_THROW(Model(amp::build_train_network(*f.net, loss_function, *f.optimizer), nullptr),
               ArgumentError);
  Model model(*f.net, loss_function, *f.optimizer);
  EXPECT_THROW(model.fit(0, *f.loader), ArgumentError);
}

TEST(StepTimer, PrintsEverySoManySteps) {
  EXPECT_THROW(StepTimer(-1), ArgumentError);
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  std::FILE* out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  StepTimer timer(2, out);
  StepTimer silent(0, out);
  model.fit(1, *f.loader, {.callbacks = {&timer, &silent}, .steps = 3});
  std::rewind(out);
  char text[256] = {};
  const std::size_t length = std::fread(text, 1, sizeof(text) - 1, out);
  std::fclose(out);
  EXPECT_THAT(std::string(text, length),
              testing::MatchesRegex("epoch: 1 step: 2, step time: [0-9]+\\.[0-9]+ ms\n"));
  EXPECT_EQ(timer.times_ms().size(), 3U);
}

TEST(StopOnDivergence, WaitsForItsPatience) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  StopOnDivergence guard({.factor = 2, .patience = 2});
  FitState state{.model = model};
  guard.on_train_begin(state);
  const double nan = std::nan("");
  for (const double loss : {1.0, 1.9, 2.1, 0.5, 0.9, nan, 0.7, 1.1}) {
    state.result.loss = loss;
    guard.on_step_end(state);
    EXPECT_FALSE(state.stop) << loss;
  }
  state.result.loss = nan;
  guard.on_step_end(state);
  EXPECT_TRUE(state.stop);
}

TEST(StopOnDivergence, BeginsAnewUnlessItGoesOn) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  EXPECT_THROW(StopOnDivergence({.factor = 1}), ArgumentError);
  StopOnDivergence guard({.factor = 2, .patience = 1});
  FitState state{.model = model};
  const auto stops_at = [&](double loss) {
    guard.on_train_begin(state);
    state.stop = false;
    state.result.loss = loss;
    guard.on_step_end(state);
    return state.stop;
  };
  EXPECT_FALSE(stops_at(1));
  EXPECT_FALSE(stops_at(5)) << "another training";
  state.resumed_from = "folder";
  EXPECT_TRUE(stops_at(11)) << "the same";
}

// For an epoch that a resumed training begins in its middle, as for a whole one.
TEST(TimeMonitor, SharesTheTimeAmongTheStepsThatWereDone) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  std::FILE* out = std::tmpfile();
  TimeMonitor monitor(out);
  StepTimer timer;
  FitState state{.model = model, .step_in_epoch = 3};
  monitor.on_epoch_begin(state);
  timer.on_step_begin(state);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  while (std::chrono::steady_clock::now() < end) {
  }
  timer.on_step_end(state);
  state.step_in_epoch = 5;
  monitor.on_epoch_end(state);
  EXPECT_GE(timer.median_ms(), 5);
  std::rewind(out);
  double epoch_ms = 0;
  double step_ms = 0;
  EXPECT_EQ(std::fscanf(out, "epoch time: %lf ms, per step time: %lf ms", &epoch_ms, &step_ms), 2);
  std::fclose(out);
  EXPECT_NEAR(epoch_ms, 2 * step_ms, 0.002) << "both have three digits";
}

TEST(StopOnDivergence, TakesNegativeLossesForWhatTheyAre) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  FitState state{.model = model};
  StopOnDivergence guard({.patience = 1});
  StopOnDivergence twice({.factor = 2, .patience = 1});
  guard.on_train_begin(state);
  twice.on_train_begin(state);
  for (const double loss : {-1.0, -2.0, -4.0, -1.0}) {
    state.result.loss = loss;
    guard.on_step_end(state);
    twice.on_step_end(state);
    EXPECT_FALSE(state.stop) << loss;
  }
  state.result.loss = 0.5;
  twice.on_step_end(state);
  EXPECT_TRUE(state.stop);
}

TEST(Model, TrainsForAnyNumberOfEpochsUpToItsSteps) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  EXPECT_EQ(model.fit(std::numeric_limits<std::int64_t>::max(), *f.loader, {.steps = 5}).steps, 5);
}

TEST(LossMonitor, PrintsEverySoManySteps) {
  Fixture f;
  Model model(*f.net, loss_function, *f.optimizer);
  std::FILE* out = std::tmpfile();
  LossMonitor monitor(2, out);
  FitState state{.model = model, .epoch = 1};
  state.result.loss = 0.5;
  for (state.step = 1; state.step <= 4; ++state.step) {
    state.step_in_epoch = state.step;
    state.result.skipped = state.step == 4;
    monitor.on_step_end(state);
  }
  std::rewind(out);
  std::string text(256, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_EQ(text, "epoch: 1 step: 2, loss is 0.5\nepoch: 1 step: 4, loss is 0.5 (step skipped)\n");
  EXPECT_THROW(LossMonitor(0), ArgumentError);
}

// At O0, the default, the options do not specify precision.
TEST(Model, LeavesTheNetworksOwnPrecision) {
  Fixture f;
  amp::auto_mixed_precision(*f.net, "O2", DType::kBf16);
  const Tensor input = full({1, 1, 28, 28}, 0.3);
  const auto before = (*f.net)(input).to_vector<float>();
  Model model(*f.net, loss_function, *f.optimizer);
  EXPECT_EQ(amp::policy_of(*f.net)->lower, DType::kBf16);
  EXPECT_EQ(model.predict(input).to_vector<float>(), before);
}

}  // namespace
}  // namespace mezzo::train
