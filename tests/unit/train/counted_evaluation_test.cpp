// Tests evaluations with losses that do not count every label: the division into batches makes no
// difference.
#include <cmath>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/tensor_batches.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kExamples = 7;

// Of seven examples three do not count: the second pair, and one more.
struct CountedSet {
  Tensor inputs = seeded_inputs();
  Tensor labels = from_values<std::int64_t>({0, 1, -100, -100, 2, -100, 0}, {kExamples});

  static Tensor seeded_inputs() {
    Generator generator(3);
    return randn({kExamples, 2}, generator);
  }

  data::TensorBatches in_batches_of(std::int64_t size) const {
    return data::TensorBatches(inputs, labels, {.batch_size = size, .shuffle = false});
  }
};

struct CountedModel {
  explicit CountedModel(const amp::LossFunction& loss, const ModelOptions& options = {})
      : model(*net, loss, optimizer, options) {}

  static std::unique_ptr<nn::Linear> seeded_net() {
    manual_seed(1);
    return std::make_unique<nn::Linear>(2, 3);
  }

  std::unique_ptr<nn::Linear> net = seeded_net();
  optim::Sgd optimizer{net->parameters(), {.lr = 0.1}};
  Model model;
};

const CrossEntropyOptions kIgnoring{.ignore_index = -100};

// Losses are added up in f64; those of batches are sums of at most seven f32 losses.
void expect_same_in_all_batches(const amp::LossFunction& loss, const char* what) {
  CountedModel counted(loss, {.metrics = {"loss"}});
  const CountedSet set;
  data::TensorBatches whole = set.in_batches_of(kExamples);
  const double expected = counted.model.eval(whole).at("loss");
  EXPECT_TRUE(std::isfinite(expected)) << what;
  EXPECT_NEAR(expected, loss(counted.model.predict(set.inputs), set.labels).item(),
              2 * kExamples * 0x1p-24 * expected)
      << what;
  for (std::int64_t size = 1; size < kExamples; ++size) {
    data::TensorBatches batches = set.in_batches_of(size);
    EXPECT_NEAR(counted.model.eval(batches).at("loss"), expected,
                2 * kExamples * 0x1p-24 * expected)
        << what << " in batches of " << size;
  }
}

TEST(CountedEvaluation, DoesNotDependOnItsBatches) {
  expect_same_in_all_batches(nn::CrossEntropyLoss(kIgnoring), "ignored labels");
  CrossEntropyOptions weighted = kIgnoring;
  weighted.class_weights = from_values<float>({1, 5, 20}, {3});
  expect_same_in_all_batches(nn::CrossEntropyLoss(weighted), "class weights");
  weighted.label_smoothing = 0.2;
  expect_same_in_all_batches(nn::CrossEntropyLoss(weighted), "smoothing");
  // By itself, an example of the class with weight 0 has a loss that is divided by 0.
  weighted.class_weights = from_values<float>({0, 5, 20}, {3});
  expect_same_in_all_batches(nn::CrossEntropyLoss(weighted), "a class that weighs nothing");
  weighted.reduction = Reduction::kSum;
  expect_same_in_all_batches(nn::CrossEntropyLoss(weighted), "a sum");
  const auto sum = [weighted](const Tensor& output, const Tensor& labels) {
    return cross_entropy(output, labels, weighted);
  };
  expect_same_in_all_batches(amp::SumLoss(sum), "a sum of one's own");
  const auto count = [weighted](const Tensor& labels) {
    return cross_entropy_count(labels, weighted);
  };
  expect_same_in_all_batches(amp::CountedLoss(sum, count), "a count of one's own");
}

// A function cannot declare that it ignores labels, so it gets all of them.
TEST(CountedEvaluation, APlainFunctionIsAMeanOverExamples) {
  const auto plain = [](const Tensor& output, const Tensor& labels) {
    return mse_loss(output, labels);
  };
  CountedModel counted(plain, {.metrics = {"loss"}});
  const Tensor targets = zeros({kExamples, 3});
  data::TensorBatches batches(CountedSet().inputs, targets, {.batch_size = 4, .shuffle = false});
  const double expected = mse_loss(counted.model.predict(CountedSet().inputs), targets).item();
  EXPECT_NEAR(counted.model.eval(batches).at("loss"), expected, 2 * 21 * 0x1p-24 * expected);
}

TEST(CountedEvaluation, TheBestCheckpointIsKept) {
  const data::TempFolder folder;
  CountedModel counted{nn::CrossEntropyLoss(kIgnoring)};
  data::TensorBatches batches = CountedSet().in_batches_of(2);
  data::TensorBatches whole = CountedSet().in_batches_of(kExamples);
  ModelCheckpoint keep({.folder = folder.path(), .best = "loss"});
  counted.model.fit(2, whole, {.callbacks = {&keep}, .validation = &batches});
  EXPECT_TRUE(keep.best().has_value());
}

// Both metrics exist by default.
TEST(CountedEvaluation, TheAccuracyLeavesOutWhatTheLossIgnores) {
  CountedModel counted(nn::CrossEntropyLoss(kIgnoring), {.metrics = {"loss", "acc", "top3"}});
  data::TensorBatches batches = CountedSet().in_batches_of(2);
  const auto metrics = counted.model.eval(batches);
  EXPECT_EQ(metrics.at("top3"), 1) << "of three classes";
  const Tensor logits = counted.model.predict(CountedSet().inputs);
  TopK accuracy(1, -100);
  accuracy.update(logits, CountedSet().labels, {});
  EXPECT_EQ(metrics.at("accuracy"), accuracy.value());
  // The ignored label may be a class, such as that of the background.
  CountedModel background(nn::CrossEntropyLoss({.ignore_index = 0}));
  data::TensorBatches zeros_and_ones(CountedSet().inputs,
                                     from_values<std::int64_t>({0, 0, 1, 0, 0, 0, 0}, {kExamples}),
                                     {.batch_size = 2, .shuffle = false});
  const double of_one = background.model.eval(zeros_and_ones).at("accuracy");
  EXPECT_TRUE(of_one == 0 || of_one == 1) << of_one;
}

TEST(CountedEvaluation, ALabelThatNobodySaidIsIgnoredIsRefused) {
  const auto plain = [](const Tensor& output, const Tensor& labels) {
    return cross_entropy(output, labels, kIgnoring);
  };
  CountedModel counted(plain, {.metrics = {"accuracy"}});
  data::TensorBatches batches = CountedSet().in_batches_of(2);
  EXPECT_THAT(
      message_of<ArgumentError>([&] { counted.model.eval(batches); }),
      HasSubstr("the label -100 is none of the 3 classes. Classes count from 0; to ignore a "
                "label, set the ignore_index of nn::CrossEntropyLoss"));
}

TEST(CountedEvaluation, ASetOfWhichNothingCountsIsAnError) {
  for (const char* metric : {"loss", "accuracy"}) {
    CountedModel counted(nn::CrossEntropyLoss(kIgnoring), {.metrics = {metric}});
    data::TensorBatches batches(CountedSet().inputs, full({kExamples}, -100, DType::kI64),
                                {.batch_size = 2, .shuffle = false});
    EXPECT_EQ(
        message_of<ArgumentError>([&] { counted.model.eval(batches); }),
        concat("[metrics] nothing has been counted for ", metric,
               ". Evaluate examples whose labels are not all ignored or of classes with weight 0"));
  }
}

// Found by reading further batches, and only then.
TEST(CountedEvaluation, ASetOfWhichNothingCountsIsRefusedBeforeTheFirstStep) {
  const std::int64_t ignored = -100;
  for (const std::int64_t counted_at : {-1, 0, 4, 6}) {
    std::vector<std::int64_t> labels(kExamples, ignored);
    if (counted_at >= 0) labels[static_cast<std::size_t>(counted_at)] = 1;
    CountedModel counted(nn::CrossEntropyLoss(kIgnoring), {.metrics = {"accuracy", "loss"}});
    data::TensorBatches training = CountedSet().in_batches_of(kExamples);
    data::TensorBatches validation(CountedSet().inputs, from_values(labels, {kExamples}),
                                   {.batch_size = 2, .shuffle = false});
    std::int64_t steps = 0;
    LambdaCallback count({.on_step_end = [&](FitState&) { ++steps; }});
    const auto fit = [&] {
      counted.model.fit(1, training, {.callbacks = {&count}, .validation = &validation});
    };
    if (counted_at >= 0) {
      EXPECT_NO_THROW(fit()) << counted_at;
      continue;
    }
    EXPECT_THAT(message_of<ArgumentError>(fit),
                testing::AllOf(HasSubstr("nothing has been counted for accuracy"),
                               HasSubstr("This is the whole validation, which is checked before")));
    EXPECT_EQ(steps, 0);
  }
}

// Returns the same logits for whatever tokens: those of 3 tokens over a vocabulary of 3.
class FixedLogits final : public nn::Module {
 public:
  Tensor forward(const Tensor& tokens) override {
    const Tensor logits = from_values<float>({0, 9, 1, 0, 9, 1, 2, 9, 3}, {1, 3, 3});
    return expand(logits, {tokens.size(0), 3, 3});
  }
};

// As many tokens as classes: axis 1 could be either.
TEST(CountedEvaluation, LanguageModelsAreMeasuredByToken) {
  FixedLogits net;
  optim::Sgd optimizer({zeros({1}).set_requires_grad(true)}, {.lr = 0.1});
  Model model(net, nn::NextTokenLoss({.ignore_index = -1}), optimizer,
              {.metrics = {"accuracy", "top2"}});
  const Tensor tokens = zeros({2, 3}, DType::kI64);
  const Tensor next = from_values<std::int64_t>({1, 1, 2, 1, 0, -1}, {2, 3});
  data::TensorBatches batches(tokens, next, {.batch_size = 2, .shuffle = false});
  const auto values = model.eval(batches);
  EXPECT_EQ(values.at("accuracy"), 3.0 / 5);
  EXPECT_EQ(values.at("top2"), 4.0 / 5);
}

}  // namespace
}  // namespace mezzo::train
