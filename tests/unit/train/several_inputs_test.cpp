// Tests train::Model with batches of several inputs and labels.
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/sequence_batches.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/nn/loss.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/checkpointing.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/two_towers.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using test::two_tower_batch;
using test::two_tower_loss_of;
using test::TwoTowers;
using testing::HasSubstr;

const Batch kTowerExamples = two_tower_batch(5, 22);

struct TowerTraining {
  explicit TowerTraining(bool graph, const std::vector<std::string>& metrics = {"loss"}) {
    manual_seed(1);
    net = std::make_unique<TwoTowers>();
    adam = std::make_unique<optim::Adam>(net->parameters(), optim::AdamOptions{.lr = 0.01});
    model = std::make_unique<Model>(
        *net, two_tower_loss_of(*net), *adam,
        ModelOptions{.metrics = metrics,
                     .amp = {.level = "O2", .dtype = DType::kBf16, .step = {.micro_batches = 2}},
                     .graph = graph});
  }

  data::TensorBatches loader{
      kTowerExamples.inputs, kTowerExamples.labels, {.batch_size = 8, .seed = 5}};
  std::unique_ptr<TwoTowers> net;
  std::unique_ptr<optim::Adam> adam;
  std::unique_ptr<Model> model;
};

TEST(SeveralInputsFit, AModelTrainsAndEvaluates) {
  for (const bool graph : {false, true}) {
    TowerTraining training(graph);
    const double before = training.model->eval(training.loader).at("loss");
    const FitResult result =
        training.model->fit(12, training.loader, {.validation = &training.loader});
    EXPECT_EQ(result.steps, 36);
    EXPECT_LT(result.metrics.at("loss"), before);
    EXPECT_EQ(training.model->eval(training.loader), result.metrics);
  }
}

TEST(SeveralInputsFit, GraphModeHasTheSameBits) {
  TowerTraining eager(false);
  eager.model->fit(2, eager.loader);
  TowerTraining graph(true);  // seeds dropout like the first
  graph.model->fit(2, graph.loader);
  EXPECT_TRUE(amp::everything(*eager.net, *eager.adam) == amp::everything(*graph.net, *graph.adam));
}

// A checkpoint has the tied weight and its state once, and the training goes on bit for bit.
TEST(SeveralInputsFit, ATrainingResumes) {
  TowerTraining whole(false);
  whole.model->fit(4, whole.loader);
  const data::TempFolder folder;
  TowerTraining first(false);
  ModelCheckpoint writes({.folder = folder.path()});
  first.model->fit(2, first.loader, {.callbacks = {&writes}});
  TowerTraining second(false);
  ModelCheckpoint continues({.folder = folder.path()});
  second.model->fit(4, second.loader, {.callbacks = {&continues}, .resume = folder.path()});
  EXPECT_TRUE(amp::everything(*second.net, *second.adam) ==
              amp::everything(*whole.net, *whole.adam));
  EXPECT_EQ(second.net->next.weight().impl(), second.net->words.weight().impl());
}

TEST(SeveralInputsFit, ATiedWeightLoadsByEitherName) {
  const data::TempFolder folder;
  const TwoTowers net;
  const std::string path = folder.path("net.safetensors");
  io::write_safetensors(path, net.state());
  TwoTowers other;
  other.load_state(io::read_safetensors(path).tensors);
  EXPECT_EQ(other.next.weight().to_vector<float>(), net.words.weight().to_vector<float>());
  // As another program may write it, under the other name alone.
  std::vector<NamedTensor> state = net.state();
  std::erase_if(state, [](const NamedTensor& entry) { return entry.name == "words.weight"; });
  TwoTowers third;
  third.load_state(state);
  EXPECT_EQ(third.words.weight().to_vector<float>(), net.words.weight().to_vector<float>());
}

TEST(SeveralInputsFit, MetricsReadTheOutputThatTheLossSets) {
  TowerTraining training(false, {"loss", "accuracy"});
  // The first labels are numbers, not classes.
  EXPECT_THROW(training.model->eval(training.loader), ArgumentError);
  nn::Linear net(2, 3);
  optim::Adam adam(net.parameters());
  bool sets = true;
  const amp::LossOfBatch loss([&](Batch& batch) {
    const Tensor logits = net(batch.inputs[0]);
    if (sets) batch.output = logits;
    return cross_entropy(logits, batch.labels[0]);
  });
  Model same(net, nn::CrossEntropyLoss(), adam);
  Model own(net, loss, adam);
  data::TensorBatches loader(randn({20, 2}), zeros({20}, DType::kI64), {.batch_size = 6});
  EXPECT_EQ(own.eval(loader), same.eval(loader));
  sets = false;
  EXPECT_THAT(message_of([&] { own.eval(loader); }),
              HasSubstr("the metric `accuracy` reads the network's output, which the loss does not "
                        "give"));
}

TEST(SeveralInputsFit, ModelsPredictAllResults) {
  TowerTraining training(false);
  const nn::Tensors results = training.model->predict(kTowerExamples.inputs);
  ASSERT_EQ(results.size(), 3U);
  for (const Tensor& result : results) {
    EXPECT_EQ(result.dtype(), DType::kF32);
    EXPECT_FALSE(result.requires_grad());
  }
}

// The lengths of sequences are a second input.
TEST(SeveralInputsFit, SequencesComeWithTheirLengths) {
  class Counts final : public nn::Module {
   public:
    Counts() { add("fc", fc); }
    nn::Tensors forward_all(const nn::Tensors& inputs) override {
      EXPECT_EQ(inputs[1].dtype(), DType::kI64);
      return {fc(reshape(inputs[1].astype(DType::kF32), {-1, 1}))};
    }
    nn::Linear fc{1, 2};
  } net;
  optim::Adam adam(net.parameters(), {.lr = 0.1});
  Model model(net, nn::CrossEntropyLoss(), adam);
  std::vector<Tensor> sequences;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 12; ++i) {
    sequences.push_back(zeros({1 + i % 6}, DType::kI64));
    labels.push_back(i % 6 < 3 ? 0 : 1);
  }
  data::SequenceBatches loader(sequences, from_values(labels, {12}),
                               {.batches = {.batch_size = 4}});
  const double before = model.eval(loader).at("loss");
  model.fit(10, loader);
  EXPECT_LT(model.eval(loader).at("loss"), before);
}

}  // namespace
}  // namespace mezzo::train
