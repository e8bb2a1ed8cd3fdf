// Tests Model::fit() on sequences of tokens, with a loss with class weights.
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

constexpr std::int64_t kSentences = 18;
constexpr std::int64_t kTokens = 7;
constexpr std::int64_t kWords = 10;
constexpr std::int64_t kPadding = -100;

// Logits [n, c, t] of 3 classes for the words [n, t].
class Tagger final : public nn::Module {
 public:
  Tagger() {
    add("words", words_);
    add("dropout", dropout_);
    add("classes", classes_);
  }

  Tensor forward(const Tensor& words) override {
    return permute(classes_(dropout_(words_(words))), {0, 2, 1});
  }

 private:
  nn::Embedding words_{kWords, 8};
  nn::Dropout dropout_{0.1};
  nn::Linear classes_{8, 3};
};

struct Sentences {
  Tensor words;
  Tensor classes;  // word mod 3; word 0 is padding
};

Sentences some_sentences() {
  Generator random(4);
  std::vector<std::int64_t> words;
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < kSentences * kTokens; ++i) {
    const auto word = static_cast<std::int64_t>(random.below(kWords));
    words.push_back(word);
    classes.push_back(word == 0 ? kPadding : word % 3);
  }
  return {from_values(words, {kSentences, kTokens}), from_values(classes, {kSentences, kTokens})};
}

// Five steps per epoch, the last one with two sentences.
struct Tagging {
  explicit Tagging(std::uint64_t seed, bool graph = false, std::uint64_t order = 5)
      : batches(some_sentences().words, some_sentences().classes,
                {.batch_size = 4, .seed = order}) {
    manual_seed(seed);
    net.emplace();
    optimizer.emplace(net->parameters(), optim::AdamOptions{.lr = {0.05}});
    const Tensor weights = from_values({1.0F, 2.0F, 0.5F}, {3});
    const auto loss = [weights](const Tensor& logits, const Tensor& labels) {
      return cross_entropy(
          logits, labels,
          {.label_smoothing = 0.01, .ignore_index = kPadding, .class_weights = weights});
    };
    model.emplace(*net, loss, *optimizer, ModelOptions{.metrics = {"loss"}, .graph = graph});
  }

  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (const NamedTensor& entry : net->state()) all.push_back(entry.tensor.to_vector<float>());
    return all;
  }

  data::TensorBatches batches;
  std::optional<Tagger> net;
  std::optional<optim::Adam> optimizer;
  std::optional<Model> model;
};

TEST(TensorTraining, LearnsWhatClassesWordsHave) {
  Tagging tagging(1);
  const double before = tagging.model->eval(tagging.batches).at("loss");
  const FitResult result = tagging.model->fit(20, tagging.batches);
  EXPECT_EQ(result.steps, 100);
  EXPECT_EQ(result.epochs, 20);
  EXPECT_LT(tagging.model->eval(tagging.batches).at("loss"), before / 4);
}

TEST(TensorTraining, GraphModeHasTheBitsOfEagerMode) {
  Tagging eager(1);
  eager.model->fit(2, eager.batches);
  Tagging graph(1, true);
  graph.model->fit(2, graph.batches);
  EXPECT_TRUE(eager.weights() == graph.weights());
}

// Is interrupted in that step, if one is given.
FitResult train_tagging(Tagging& tagging, const std::string& folder, std::int64_t broken_step) {
  LambdaCallback breaks({.on_step_end = [=](FitState& state) {
    if (state.step == broken_step) throw std::runtime_error("broken off");
  }});
  ModelCheckpoint checkpoints({.folder = folder, .every_steps = 2});
  return tagging.model->fit(3, tagging.batches,
                            {.callbacks = {&checkpoints, &breaks}, .resume = folder});
}

TEST(TensorTraining, GoesOnInTheMiddleOfAnEpoch) {
  const data::TempFolder whole_folder;
  Tagging whole(1);
  train_tagging(whole, whole_folder.path(), -1);
  for (const std::int64_t step : {3, 8, 13}) {
    const data::TempFolder folder;
    Tagging first(1);
    EXPECT_THROW(train_tagging(first, folder.path(), step), std::runtime_error);
    Tagging second(99);
    EXPECT_EQ(train_tagging(second, folder.path(), -1).steps, 15);
    EXPECT_TRUE(second.weights() == whole.weights()) << step;
    Tagging other(1, false, 6);
    EXPECT_THAT(message_of<ArgumentError>([&] { train_tagging(other, folder.path(), -1); }),
                testing::HasSubstr("the loader was one with seed 5, now it is 6"));
  }
}

}  // namespace
}  // namespace mezzo::train
