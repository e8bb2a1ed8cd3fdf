// Tests what fit() finds before the first step instead of after the first epoch.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/nn/freeze.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/io/stateful_net.h"
#include "tests/unit/train/checked_fit.h"

namespace mezzo::train {
namespace {

using testing::HasSubstr;

TEST(FitCheck, ALastBatchOfFewerExamplesThanMicroBatches) {
  for (const bool graph : {false, true}) {
    for (const std::int64_t last : {1, 2, 3}) {
      nn::Linear net(2, 3);
      CheckedFit training(net, {.micro_batches = 4}, graph);
      data::TensorBatches loader = rows_in_classes(64 + last, {.batch_size = 16});
      EXPECT_THAT(training.refusal(loader),
                  HasSubstr(concat("[Model] the last batch of an epoch has ", last,
                                   last == 1 ? " example" : " examples",
                                   ", and the step splits batches into 4 micro-batches. Use "
                                   "drop_remainder, another batch size, or fewer micro-batches")));
    }
  }
}

// Nothing that could be trained is refused.
TEST(FitCheck, TakesWhatCanBeTrained) {
  const auto steps = [](std::int64_t count, data::TensorBatchesOptions batches,
                        FitOptions options) {
    nn::Linear net(2, 3);
    CheckedFit training(net, {.micro_batches = 4});
    batches.batch_size = 16;
    data::TensorBatches loader = rows_in_classes(count, batches);
    return training.model.fit(2, loader, options).steps;
  };
  EXPECT_EQ(steps(68, {}, {}), 10);
  EXPECT_EQ(steps(65, {.drop_remainder = true}, {}), 8);
  EXPECT_EQ(steps(65, {}, {.steps = 4}), 4);  // which do not reach the last batch
  nn::Linear net(2, 3);
  CheckedFit training(net, {.micro_batches = 4});
  data::TensorBatches loader = rows_in_classes(65, {.batch_size = 16});
  EXPECT_THAT(training.refusal(loader, {.steps = 5}), HasSubstr("has 1 example, and"));
  loader.seek({.epoch = 0, .step = 3});
  EXPECT_THAT(training.refusal(loader, {.steps = 2}), HasSubstr("has 1 example, and"));
  loader.seek({.epoch = 0, .step = 5});  // past it
  EXPECT_EQ(training.model.fit(2, loader, {.steps = 4}).steps, 4);
}

// Batches with tensors that the network does not take or the loss lacks, in training and in
// validation.
TEST(FitCheck, BatchesOfOtherThanTwoTensors) {
  const Tensor inputs = ones({64, 2});
  const Tensor labels = zeros({64}, DType::kI64);
  const std::string_view has_more = "the network takes one input, not 2";
  for (const std::int64_t batch_size : {16, 24}) {
    const data::TensorBatchesOptions options{.batch_size = batch_size};
    data::TensorBatches two(inputs, labels, options);
    data::TensorBatches three(inputs, labels, {inputs}, options);
    data::TensorBatches four(inputs, labels, {inputs, labels}, options);
    data::TensorBatches one(inputs, options);
    nn::Linear net(2, 3);
    CheckedFit training(net);
    EXPECT_THAT(training.refusal(three), HasSubstr(has_more));
    EXPECT_THAT(training.refusal(four), HasSubstr("the network takes one input, not 3"));
    EXPECT_THAT(training.refusal(one),
                HasSubstr("takes one tensor of labels, and the batch has 0"));
    EXPECT_THAT(training.refusal(two, {.validation = &three}), HasSubstr(has_more));
    EXPECT_THAT(message_of<ArgumentError>([&] { training.model.eval(three); }),
                HasSubstr(has_more));
    EXPECT_EQ(training.model.fit(1, two, {.validation = &two}).steps, two.steps_per_epoch());
  }
}

// A network with a norm in the middle.
class NormedNet final : public nn::Module {
 public:
  explicit NormedNet(bool images) : images_(images) {
    add("in", in_);
    add("norm1", norm1_);
    add("norm2", norm2_);
    add("out", out_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = in_(x);
    return out_(images_ ? flatten(norm2_(reshape(y, {-1, 6, 1, 1})), 1) : norm1_(y));
  }

 private:
  bool images_;
  nn::Linear in_{2, 6};
  nn::BatchNorm1d norm1_{6};
  nn::BatchNorm2d norm2_{6};
  nn::Linear out_{6, 3};
};

TEST(FitCheck, ALastBatchOfOneValuePerChannel) {
  for (const bool images : {false, true}) {
    for (const bool in_inference : {false, true}) {
      NormedNet net(images);
      net.train(!in_inference);  // fit() then trains all of it
      CheckedFit training(net);
      data::TensorBatches loader = rows_in_classes(33, {.batch_size = 16});
      EXPECT_THAT(
          training.refusal(loader),
          HasSubstr(concat("[Model] the last batch of an epoch, which has 1 example: the "
                           "batch norm ",
                           images ? "norm2" : "norm1", " would have one value per channel")));
    }
    NormedNet net(images);
    CheckedFit training(net, {.micro_batches = 4});
    data::TensorBatches loader = rows_in_classes(32 + 5, {.batch_size = 16});
    EXPECT_THAT(training.refusal(loader),
                HasSubstr("[Model] a micro-batch of 1 example of the last batch of an epoch, which "
                          "has 5 examples: the batch norm"));
    data::TensorBatches twos = rows_in_classes(32 + 8, {.batch_size = 16});
    EXPECT_EQ(training.model.fit(1, twos).steps, 3);
  }
}

// With running statistics one value is enough.
TEST(FitCheck, AFrozenNormTakesOneExample) {
  NormedNet net(false);
  net.find("norm1")->eval();
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(33, {.batch_size = 16});
  EXPECT_EQ(training.model.fit(1, loader).steps, 3);
  EXPECT_TRUE(net.find("norm2")->is_training());
  EXPECT_TRUE(net.find("norm1")->forward_hooks().empty());
}

// In a training, the callback decides what is trained.
TEST(FitCheck, ANormThatACallbackFreezesTakesOneExample) {
  for (const bool at_train_begin : {true, false}) {
    NormedNet net(false);
    CheckedFit training(net);
    const auto set_mode = [&](FitState&) { net.find("norm1")->eval(); };
    LambdaCallback freeze(at_train_begin ? LambdaCallback::Functions{.on_train_begin = set_mode}
                                         : LambdaCallback::Functions{.on_epoch_begin = set_mode});
    data::TensorBatches loader = rows_in_classes(33, {.batch_size = 16});
    EXPECT_EQ(training.model.fit(1, loader, {.callbacks = {&freeze}}).steps, 3);
    net.find("norm1")->train();
    LambdaCallback stop({.on_epoch_begin = [](FitState& state) { state.stop = true; }});
    EXPECT_TRUE(training.model.fit(1, loader, {.callbacks = {&stop}}).stopped);
  }
}

// Batches of any size, not only the last one.
TEST(FitCheck, MicroBatchesOfOneValuePerChannel) {
  NormedNet net(true);
  CheckedFit training(net, {.micro_batches = 4});
  data::TensorBatches loader = rows_in_classes(16, {.batch_size = 4});
  const std::string message = training.refusal(loader);
  EXPECT_THAT(message,
              HasSubstr("[Model] a micro-batch of 1 example of a batch of 4 examples in 4 "
                        "micro-batches: the batch norm norm2 would have one value per channel"));
  EXPECT_THAT(message, HasSubstr("Use larger batches, or fewer micro-batches"));
  CheckedFit single(net);
  data::TensorBatches ones = rows_in_classes(16, {.batch_size = 1});
  EXPECT_THAT(single.refusal(ones), HasSubstr("[Model] a batch of 1 example: the batch norm"));
  net.find("norm2")->eval();
  EXPECT_EQ(training.model.fit(1, loader).steps, 4);
}

// Frozen norms stay frozen, even in a network that was completely in inference mode.
TEST(FitCheck, FrozenNormsStayWhenAllIsPutIntoTraining) {
  for (const bool is_frozen : {true, false}) {
    NormedNet net(false);
    if (is_frozen) nn::freeze(net, {"norm1"});
    net.eval();
    optim::Sgd sgd(nn::trainable_parameters(net), {.lr = 0.1});
    Model model(net, nn::CrossEntropyLoss(), sgd);
    const Tensor mean = net.find("norm1")->named_buffers().at(0).tensor;
    data::TensorBatches loader = rows_in_classes(33, {.batch_size = 11});
    EXPECT_EQ(model.fit(1, loader).steps, 3);
    EXPECT_EQ(mean.to_vector<float>() == std::vector<float>(6, 0), is_frozen);
    EXPECT_EQ(net.find("norm1")->is_training(), !is_frozen);
    EXPECT_TRUE(net.find("norm2")->is_training());
  }
}

// A network that requires its batch size.
class FixedSizeNet final : public nn::Module {
 public:
  FixedSizeNet() { add("fc", fc_); }
  Tensor forward(const Tensor& x) override { return fc_(reshape(x, {16, 2})); }

 private:
  nn::Linear fc_{2, 3};
};

TEST(FitCheck, ALastBatchThatTheNetworkDoesNotTake) {
  FixedSizeNet net;
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(40, {.batch_size = 16});
  const std::string message = training.refusal(loader);
  EXPECT_THAT(message, HasSubstr("[reshape] "));
  EXPECT_THAT(message,
              HasSubstr(". This is the last batch of an epoch, which has 8 examples, checked "
                        "before the first step. drop_remainder leaves that batch out"));
  data::TensorBatches whole = rows_in_classes(48, {.batch_size = 16});
  data::TensorBatches validation = rows_in_classes(40, {.batch_size = 16, .shuffle = false});
  EXPECT_THAT(training.refusal(whole, {.validation = &validation}),
              HasSubstr(". This is the last batch of the validation, which is checked before"));
}

TEST(FitCheck, AMetricThatDoesNotFitTheTargets) {
  nn::Linear net(2, 1);
  optim::Sgd sgd(net.parameters());
  Model model(net, nn::MseLoss(), sgd);
  const Tensor x = randn({64, 2});
  data::TensorBatches loader(x, randn({64, 1}), {.batch_size = 16});
  std::int64_t steps = 0;
  LambdaCallback count({.on_step_end = [&](FitState&) { ++steps; }});
  const std::string message = message_of<ArgumentError>(
      [&] { model.fit(2, loader, {.callbacks = {&count}, .validation = &loader}); });
  EXPECT_THAT(message, HasSubstr("[metrics] logits are [n, c] and labels [n]"));
  EXPECT_THAT(
      message,
      HasSubstr(
          "This is the first batch of the validation, which is checked before the first step"));
  EXPECT_EQ(steps, 0);
}

TEST(FitCheck, LabelsOfTheValidationThatAreNoClasses) {
  nn::Linear net(2, 3);
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(32, {.batch_size = 16});
  for (const std::int64_t bad : {0, 20}) {
    std::vector<std::int64_t> labels(21, 1);
    labels[static_cast<std::size_t>(bad)] = 3;
    data::TensorBatches validation(randn({21, 2}), from_values(labels, {21}),
                                   {.batch_size = 16, .shuffle = false});
    EXPECT_THAT(training.refusal(loader, {.validation = &validation}),
                HasSubstr(bad == 0 ? "This is the first batch of the validation"
                                   : "This is the last batch of the validation"));
  }
  data::TensorBatches none =
      rows_in_classes(3, {.batch_size = 4, .shard = {.index = 1, .count = 2}});
  EXPECT_THAT(training.refusal(loader, {.validation = &none}),
              HasSubstr("the validation has no batch for shard 1 of 2"));
}

// Everything that a trial might change, when the first callback is told of the training.
struct TouchedState {
  std::vector<std::vector<double>> numbers;
  RandomPosition random;
  data::LoaderPosition loader, validation;
  std::vector<bool> modes{};
  std::size_t hooks = 0;

  bool operator==(const TouchedState&) const = default;
};

TEST(FitCheck, ChangesNothing) {
  manual_seed(7);
  test::StatefulNet net;
  net.find("conv")->eval();
  optim::Sgd sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  Model model(net, amp::class_loss, sgd, {.amp = {.step = {.micro_batches = 2}}});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 14; ++i) labels.push_back(i % 10);
  data::TensorBatches loader(randn({14, 1, 28, 28}), from_values(labels, {14}), {.batch_size = 5});
  data::TensorBatches validation(randn({14, 1, 28, 28}), from_values(labels, {14}),
                                 {.batch_size = 4});
  const double accuracy = model.eval(validation).at("accuracy");
  loader.seek({.epoch = 3, .step = 1});
  validation.seek({.epoch = 2, .step = 1});
  const auto look = [&] {
    TouchedState seen{.numbers = amp::everything(net, sgd),
                      .random = default_generator().position(),
                      .loader = loader.position(),
                      .validation = validation.position()};
    for (const nn::Module::NamedModule& entry : net.named_modules()) {
      seen.modes.push_back(entry.module->is_training());
      seen.hooks += entry.module->forward_hooks().size();
    }
    return seen;
  };
  const TouchedState before = look();
  TouchedState seen;
  LambdaCallback watch({.on_train_begin = [&](FitState& state) {
    seen = look();
    EXPECT_EQ(state.model.metric("accuracy").value(), accuracy);
    EXPECT_TRUE(state.metrics.empty());
  }});
  model.fit(1, loader, {.callbacks = {&watch}, .steps = 2, .validation = &validation});
  EXPECT_TRUE(seen == before);
}

// The bits of a training do not depend on the trials before it.
TEST(FitCheck, GivesTheSameTraining) {
  const auto train = [](std::int64_t tries) {
    manual_seed(8);
    test::StatefulNet net;
    optim::Sgd sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
    Model model(net, amp::class_loss, sgd, {.amp = {.level = "O2", .dtype = DType::kBf16}});
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 22; ++i) labels.push_back(i % 10);
    Generator generator(2);
    data::TensorBatches loader(randn({22, 1, 28, 28}, generator), from_values(labels, {22}),
                               {.batch_size = 4});
    LambdaCallback again({.on_step_begin = [&](FitState& state) {
      for (std::int64_t i = 0; i < tries; ++i) {
        state.model.check_eval(loader);
        state.model.train_step().try_forward(state.batch->images, state.batch->labels);
      }
    }});
    model.fit(2, loader, {.callbacks = {&again}, .validation = &loader});
    return amp::everything(net, sgd);
  };
  EXPECT_EQ(train(0), train(2));
}

// A user's metric is itself tried, and begins anew.
class CountedRows final : public Metric {
 public:
  explicit CountedRows(std::int64_t most) : most_(most) {}
  std::string name() const override { return "rows"; }
  void reset() override { rows_ = 0; }
  void update(const Tensor& output, const Tensor&, const amp::BatchLoss&) override {
    rows_ += output.size(0);
    check_arg(output.size(0) <= most_, "rows", "too many rows: ", output.size(0), ". Give fewer");
  }
  double value() const override { return static_cast<double>(rows_); }

 private:
  std::int64_t most_;
  std::int64_t rows_ = 0;
};

TEST(FitCheck, AMetricOfTheUsersOwn) {
  for (const std::int64_t most : {16, 15}) {
    nn::Linear net(2, 3);
    CheckedFit training(net);
    training.model.add_metric(std::make_unique<CountedRows>(most));
    data::TensorBatches loader = rows_in_classes(40, {.batch_size = 16});
    if (most == 15) {
      EXPECT_THAT(training.refusal(loader, {.validation = &loader}),
                  HasSubstr("[rows] too many rows: 16"));
      EXPECT_EQ(training.model.metric("rows").value(), 0);
    } else {
      EXPECT_EQ(training.model.fit(1, loader, {.validation = &loader}).metrics.at("rows"), 40);
    }
  }
}

}  // namespace
}  // namespace mezzo::train
