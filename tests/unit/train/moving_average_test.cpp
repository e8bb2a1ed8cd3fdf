// Tests averaged weights: their values, who computes with them, and that the training continues as
// if there were none.
#include "mezzo/train/moving_average.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/core/random.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/nn/nn.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/checkpointing.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/message_of.h"
#include "tests/unit/train/small_training.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::HasSubstr;

using StateValues = std::vector<std::vector<double>>;

StateValues values_of(const std::vector<NamedTensor>& state) {
  StateValues values;
  for (const NamedTensor& entry : state) values.push_back(entry.tensor.to_vector<double>());
  return values;
}

// Computed in f32, element by element.
void follow(std::vector<double>& average, const std::vector<double>& weight, double decay) {
  const auto part = static_cast<float>(1 - decay);
  for (std::size_t i = 0; i < average.size(); ++i) {
    const auto old = static_cast<float>(average[i]);
    const float change = (static_cast<float>(weight[i]) - old) * part;
    average[i] = old + change;
  }
}

void set_all(nn::Module& net, std::uint64_t seed) {
  Generator generator(seed);
  for (const NamedTensor& entry : net.state()) {
    if (is_floating(entry.tensor.dtype())) {
      // Positive, as variances are.
      copy_elements(rand(entry.tensor.shape(), generator), entry.tensor);
    }
  }
}

TEST(AveragedWeights, AreTheFormulaInF32) {
  for (const bool is_half : {false, true}) {
    for (const bool warmup : {false, true}) {
      test::StatefulNet net;
      if (is_half) amp::half_parameters(net, DType::kBf16, {.keep_batchnorm_fp32 = false});
      AveragedWeights average(net, {.decay = 0.9, .warmup = warmup});
      StateValues expected = values_of(net.state());
      for (int n = 0; n < 4; ++n) {
        EXPECT_EQ(average.decay(), warmup ? (1.0 + n) / (10.0 + n) : 0.9);
        const double decay = average.decay();
        set_all(net, static_cast<std::uint64_t>(n));
        average.update();
        const StateValues weights = values_of(net.state());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (is_floating(net.state()[i].tensor.dtype())) follow(expected[i], weights[i], decay);
        }
      }
      EXPECT_EQ(values_of(average.state()), expected);
      EXPECT_EQ(average.updates(), 4);
    }
  }
}

// Each step changes a bf16 weight by a unit in the last place, 2^-8 of it: a bf16 average with this
// decay would not move.
TEST(AveragedWeights, FollowWeightsIn16Bits) {
  nn::Linear net(1, 1, false);
  amp::half_parameters(net, DType::kBf16);
  fill(net.parameters()[0], 1);
  AveragedWeights average(net, {.decay = 0.9999});
  fill(net.parameters()[0], 1.0078125);
  for (int i = 0; i < 1000; ++i) average.update();
  const double exact = 1.0078125 - 0.0078125 * std::pow(0.9999, 1000);
  // Each update rounds once, by at most half a unit in f32's last place.
  const double bound = 1000 * std::numeric_limits<float>::epsilon();
  EXPECT_NEAR(average.state()[0].tensor.item(), exact, bound);
  EXPECT_GT(average.state()[0].tensor.item(), 1.0 + bound);
}

TEST(AveragedWeights, BuffersAreAveragedOrCopied) {
  for (const bool averaged : {true, false}) {
    nn::BatchNorm2d net(2);
    AveragedWeights average(net, {.decay = 0.5, .average_buffers = averaged});
    for (const NamedTensor& buffer : net.named_buffers()) fill(buffer.tensor, 5);
    average.update();
    for (const NamedTensor& entry : average.state()) {
      if (entry.name == "running_mean") {
        EXPECT_EQ(entry.tensor.to_vector<float>()[0], averaged ? 2.5F : 5.0F);
      }
      if (entry.name == "num_batches_tracked") {
        EXPECT_EQ(entry.tensor.item(), 5);
      }
    }
  }
}

TEST(AveragedWeights, AreWhatTheNetworkComputesWithWhileInUse) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    test::StatefulNet net;
    if (dtype != DType::kF32) amp::half_parameters(net, dtype);
    net.eval();
    AveragedWeights average(net, {.decay = 0.5});
    set_all(net, 3);
    average.update();
    test::StatefulNet other;
    if (dtype != DType::kF32) amp::half_parameters(other, dtype);
    other.load_state(average.state());
    other.eval();
    Generator generator(1);
    const Tensor x = randn({2, 1, 28, 28}, generator);
    const auto outputs = [&](nn::Module& of) {
      const NoGrad no_grad;
      return amp::forward(of, x, amp::Policy{.level = amp::Level::kO2}).to_vector<float>();
    };
    const auto own = outputs(net);
    const StateValues before = values_of(net.state());
    std::vector<std::uint64_t> versions;
    for (const Tensor& param : net.parameters()) versions.push_back(param.version());
    {
      const AveragedWeights::InUse in_use(average);
      EXPECT_EQ(outputs(net), outputs(other));
      EXPECT_NE(outputs(net), own);
    }
    EXPECT_EQ(values_of(net.state()), before);
    EXPECT_EQ(outputs(net), own);
    for (std::size_t i = 0; i < versions.size(); ++i) {
      EXPECT_EQ(net.parameters()[i].version(), versions[i]);
    }
  }
}

class TiedNet final : public nn::Module {
 public:
  TiedNet() {
    add_parameter("a", weight_);
    tied_ = weight_;
    add_parameter("b", tied_);
  }
  Tensor forward(const Tensor& x) override { return x * weight_ + tied_; }

 private:
  Tensor weight_ = ones({1});
  Tensor tied_;
};

TEST(AveragedWeights, AWeightWithTwoNamesHasOneAverage) {
  TiedNet net;
  AveragedWeights average(net, {.decay = 0.5});
  fill(net.parameters()[0], 3);
  average.update();
  const AveragedWeights::InUse in_use(average);
  EXPECT_EQ(net(ones({1})).item(), 4);
  for (const NamedTensor& entry : average.state()) EXPECT_EQ(entry.tensor.item(), 2);
  const std::vector<NamedTensor> one{{"b", full({1}, 7)}};
  average.load(one, 3);
  for (const NamedTensor& entry : average.state()) EXPECT_EQ(entry.tensor.item(), 7);
}

TEST(AveragedWeights, RefuseWhatDoesNotFit) {
  nn::Linear net(2, 3);
  for (const double decay : {-0.1, 1.0, std::nan("")}) {
    EXPECT_THROW(AveragedWeights(net, {.decay = decay}), ArgumentError);
    EXPECT_THROW(ExponentialMovingAverage({.weights = {.decay = decay}}), ArgumentError);
  }
  AveragedWeights average(net);
  const StateValues before = values_of(average.state());
  nn::Linear wider(2, 4);
  nn::Linear without(2, 3, false);
  nn::BatchNorm2d other(3);
  for (const nn::Module* bad :
       {static_cast<nn::Module*>(&wider), static_cast<nn::Module*>(&without),
        static_cast<nn::Module*>(&other)}) {
    EXPECT_THROW(average.load(bad->state(), 1), ArgumentError);
  }
  EXPECT_THROW(average.load(net.state(), -1), ArgumentError);
  EXPECT_EQ(values_of(average.state()), before);
  EXPECT_THROW(ExponentialMovingAverage().state(), ArgumentError);
}

// Everything in a training that a validation with averages could change.
struct AveragedRun {
  io::Checkpoint checkpoint;
  std::map<std::string, double> metrics;
  std::vector<NamedTensor> averages;
  std::int64_t updates = 0;
  std::int64_t skipped = 0;
};

struct AverageSetting {
  const char* level = "O0";
  DType dtype = DType::kBf16;
  DType params = DType::kF32;
  ParamUpdate update = ParamUpdate::kMaster;
  bool graph = false;
};

AveragedRun train_averaged(const AverageSetting& setting, ExponentialMovingAverage* average) {
  manual_seed(4);
  test::StatefulNet net;
  if (setting.params != DType::kF32) {
    amp::half_parameters(net, setting.params, {.keep_batchnorm_fp32 = false});
  }
  optim::Sgd optimizer(net.parameters(),
                       {.lr = 0.05, .momentum = 0.9, .param_update = setting.update});
  Model model(net, amp::class_loss, optimizer,
              {.metrics = {"loss"},
               .amp = {.level = setting.level, .dtype = setting.dtype},
               .graph = setting.graph});
  const auto digits = data::open_digits(data::Split::kTrain, 32);
  data::DataLoader loader(*digits, {.batch_size = 8, .drop_remainder = true, .seed = 5});
  data::DataLoader test(*digits, {.batch_size = 16, .shuffle = false});
  AveragedRun trained;
  LambdaCallback watch({.on_train_end = [&](FitState& state) {
    trained.checkpoint = state.capture();
    trained.skipped = state.skipped_steps;
  }});
  FitOptions options{.callbacks = {&watch}, .validation = &test};
  if (average != nullptr) options.callbacks.insert(options.callbacks.begin(), average);
  trained.metrics = model.fit(3, loader, options).metrics;
  if (average == nullptr) return trained;
  trained.averages = average->state();
  trained.updates = average->average()->updates();
  // The metrics were computed with the averages.
  net.load_state(trained.averages);
  EXPECT_EQ(model.eval(test), trained.metrics);
  return trained;
}

void expect_same_training(const AverageSetting& setting) {
  const AveragedRun plain = train_averaged(setting, nullptr);
  ExponentialMovingAverage average({.weights = {.decay = 0.75}});
  const AveragedRun averaged = train_averaged(setting, &average);
  EXPECT_NE(averaged.metrics, plain.metrics);
  io::Checkpoint without = averaged.checkpoint;
  EXPECT_EQ(without.groups.back().name, "ema");
  without.groups.pop_back();
  without.values.erase("ema");
  without.values["metrics"] = plain.checkpoint.values.at("metrics");
  // The checkpoint's tensors are not copies, and train_averaged() has since loaded the averages.
  EXPECT_EQ(without.values, plain.checkpoint.values);
  EXPECT_EQ(without.random, plain.checkpoint.random);
  EXPECT_TRUE(io::same_group(without.groups[1], plain.checkpoint.groups[1]));
  EXPECT_EQ(averaged.updates, 12 - averaged.skipped);
}

// Master weights of 16-bit parameters and compensations belong to a version of the parameter.
TEST(ExponentialMovingAverage, TheTrainingHasTheSameBitsAsWithoutIt) {
  for (const bool graph : {false, true}) {
    SCOPED_TRACE(graph ? "graph" : "eager");
    expect_same_training({.graph = graph});
    expect_same_training({.level = "O2", .graph = graph});
    expect_same_training({.level = "O2", .dtype = DType::kF16, .graph = graph});
    for (const ParamUpdate update :
         {ParamUpdate::kMaster, ParamUpdate::kKahan, ParamUpdate::kStochastic}) {
      expect_same_training(
          {.level = "O2", .params = DType::kBf16, .update = update, .graph = graph});
    }
  }
}

TEST(ExponentialMovingAverage, GraphModeHasTheBitsOfEagerMode) {
  ExponentialMovingAverage eager;
  ExponentialMovingAverage graph;
  const AveragedRun a = train_averaged({.level = "O2"}, &eager);
  const AveragedRun b = train_averaged({.level = "O2", .graph = true}, &graph);
  EXPECT_EQ(values_of(a.averages), values_of(b.averages));
}

// The weights that a checkpoint offers are those of its metric.
TEST(ExponentialMovingAverage, CheckpointsGiveTheWeightsThatWereEvaluated) {
  for (const bool evaluate : {true, false}) {
    const TempFolder folder;
    Small small({0.1, 0.2});
    ExponentialMovingAverage average({.weights = {.decay = 0.5}, .evaluate = evaluate});
    small.fit(2, {.folder = folder.path(), .best = "score"}, {}, &average);
    const StateValues expected = values_of(evaluate ? average.state() : small.net.state());
    EXPECT_EQ(values_of(read_weights(folder.path())), expected);
    EXPECT_EQ(values_of(read_weights(folder.path("best"))), expected);
  }
}

TEST(ExponentialMovingAverage, ASecondTrainingGoesOnUnlessItIsOfAnotherNetwork) {
  Small small({0.1, 0.2});
  ExponentialMovingAverage average;
  const FitOptions options{.callbacks = {&average}, .validation = &small.test_loader};
  small.model.fit(1, small.loader, options);
  small.model.fit(1, small.loader, options);
  EXPECT_EQ(average.average()->updates(), 4);
  Small other({0.1});
  other.model.fit(1, other.loader, {.callbacks = {&average}, .validation = &other.test_loader});
  EXPECT_EQ(average.average()->updates(), 2);
}

TEST(ExponentialMovingAverage, PutsTheWeightsBackIfTheEvaluationFails) {
  Small small({});  // fails because there is no score
  ExponentialMovingAverage average({.weights = {.decay = 0.9}});
  StateValues seen;
  LambdaCallback watch({.on_evaluation_failed = [&](FitState& state) {
    seen = values_of(state.model.net().state());
  }});
  EXPECT_THROW(small.model.fit(1, small.loader,
                               {.callbacks = {&average, &watch}, .validation = &small.test_loader}),
               std::out_of_range);
  EXPECT_EQ(seen, values_of(small.net.state()));
  EXPECT_NE(seen, values_of(average.state()));
}

TEST(ExponentialMovingAverage, OneAloneIsEvaluated) {
  Small small({0.1, 0.2});
  ExponentialMovingAverage first({.weights = {.decay = 0.9}});
  ExponentialMovingAverage second({.weights = {.decay = 0.5}});
  const auto fit = [&](ExponentialMovingAverage& other) {
    small.model.fit(1, small.loader,
                    {.callbacks = {&first, &other}, .validation = &small.test_loader});
  };
  EXPECT_THAT(message_of<ArgumentError>([&] { fit(second); }),
              HasSubstr("two averages are to be evaluated"));
  ExponentialMovingAverage aside({.weights = {.decay = 0.5}, .evaluate = false});
  fit(aside);
  EXPECT_NE(values_of(first.state()), values_of(aside.state()));
}

}  // namespace
}  // namespace mezzo::train
