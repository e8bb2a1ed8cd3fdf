// Tests runs that begin with other weights, train a part of a network, or use other optimizers.
#include "mezzo/train/fine_tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>

#include "mezzo/data/class_counts.h"
#include "mezzo/data/digits.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/nn/load_matching.h"
#include "mezzo/ops/losses.h"
#include "mezzo/train/optimizer_names.h"
#include "mezzo/train/run.h"
#include "mezzo/train/trainer.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::train {
namespace {

using ::testing::HasSubstr;

using State = std::map<std::string, std::vector<float>>;

State state_of(const nn::Module& net) {
  State state;
  for (const NamedTensor& entry : net.state()) {
    state[entry.name] = entry.tensor.astype(DType::kF32).to_vector<float>();
  }
  return state;
}

struct Trained {
  State state;
  std::vector<StepEvent> steps;
};

class StepRecorder final : public RunObserver {
 public:
  void on_step(const StepEvent& event) override { steps.push_back(event); }
  std::vector<StepEvent> steps;
};

DataPair few_digits() {
  return {data::open_digits(data::Split::kTrain, 64), data::open_digits(data::Split::kTest, 16)};
}

Trained train_on(const RunOptions& options, const DataPair& data) {
  StepRecorder recorder;
  std::unique_ptr<nn::Module> net;
  run(options, data, recorder, &net);
  return {state_of(*net), recorder.steps};
}

RunOptions small_run(const std::string& model = "lenet5") {
  return {.model = model, .steps = 4, .batch_size = 16, .optimizer = {.lr = 0.05}};
}

// A run with everything that this file is about.
RunOptions fine_tuning_run(OptimizerKind kind, bool graph) {
  RunOptions options = small_run("resnet20");
  options.batch_size = 8;
  options.optimizer = usual_options(kind);
  options.optimizer.accumulate = 2;
  options.optimizer.clip = 0.5;
  options.optimizer.nesterov = kind == OptimizerKind::kSgd;
  options.optimizer.lr_of = {{"fc", options.optimizer.lr * 8}};
  options.schedule = {.kind = ScheduleKind::kHalfCosine, .warmup_epochs = 0.25};
  options.fine_tuning.freeze = {"conv1", "bn1", "layer1.*", "layer2.0.bn?"};
  options.loss.class_weights = {1, 2, 0.5, 1, 1, 3, 1, 1, 0.25, 1};
  options.graph = graph;
  return options;
}

TEST(FineTuningRun, FrozenPartsStayBitForBitAndTheRestMoves) {
  const DataPair data = few_digits();
  for (const bool graph : {false, true}) {
    RunOptions options = fine_tuning_run(OptimizerKind::kAdamW, graph);
    const State begun = state_of(*make_model(options, data.train->image_shape(), 10));
    const State ended = train_on(options, data).state;
    for (const auto& [name, values] : begun) {
      const bool is_frozen = name.starts_with("conv1") || name.starts_with("bn1") ||
                             name.starts_with("layer1.") || name.starts_with("layer2.0.bn");
      EXPECT_EQ(ended.at(name) == values, is_frozen) << name << " " << graph;
    }
  }
}

// With clipping the update is one piece; without it, it is spread over the backward pass.
TEST(FineTuningRun, GraphModeHasTheBitsOfEagerMode) {
  const DataPair data = few_digits();
  for (const OptimizerInfo& info : train::optimizers()) {
    for (const bool clips : {true, false}) {
      const auto train_in = [&](bool graph) {
        RunOptions options = fine_tuning_run(info.kind, graph);
        if (!clips) options.optimizer.clip.reset();
        return train_on(options, data);
      };
      const Trained eager = train_in(false);
      const Trained graph = train_in(true);
      EXPECT_EQ(eager.state, graph.state) << info.name << " " << clips;
      for (std::size_t i = 0; i < eager.steps.size(); ++i) {
        EXPECT_EQ(eager.steps[i].report.loss, graph.steps[i].report.loss);
        EXPECT_EQ(eager.steps[i].report.grad_norm, graph.steps[i].report.grad_norm);
        EXPECT_EQ(graph.steps[i].report.grad_norm.has_value(), clips);
      }
    }
  }
}

TEST(FineTuningRun, InTwoPartsItIsTheUnbrokenRun) {
  const DataPair data = few_digits();
  for (const OptimizerInfo& info : train::optimizers()) {
    for (const bool graph : {false, true}) {
      const data::TempFolder folder;
      RunOptions options = fine_tuning_run(info.kind, graph);
      options.schedule.kind = ScheduleKind::kConstant;  // independent of the run's length
      const State whole = train_on(options, data).state;
      options.checkpoints = {.folder = folder.path("run"), .resume = true};
      options.steps = 3;
      train_on(options, data);
      options.steps = 4;
      EXPECT_EQ(train_on(options, data).state, whole) << info.name << " " << graph;
      options.fine_tuning.freeze.pop_back();
      EXPECT_THAT(message_of<ArgumentError>([&] { train_on(options, data); }),
                  HasSubstr("started with --freeze bn1,conv1,layer1.*,layer2.0.bn?,"));
    }
  }
}

// A group with the rate of the run changes no bit; one with twice the rate moves twice as far.
TEST(FineTuningRun, ARateOfItsOwnIsWhatAGroupIsTrainedWith) {
  const DataPair data = few_digits();
  RunOptions options = small_run();
  options.policy.level = amp::Level::kO0;
  options.steps = 1;
  const State begun = state_of(*make_model(options, data.train->image_shape(), 10));
  const State plain = train_on(options, data).state;
  options.optimizer.lr_of = {{"fc*", options.optimizer.lr}};
  EXPECT_EQ(train_on(options, data).state, plain);
  // A power of two, which causes no rounding, from initial values of 0.
  options.optimizer.lr_of = {{"fc3", 2 * options.optimizer.lr}};
  options.fine_tuning.freeze = {};
  const State faster = train_on(options, data).state;
  EXPECT_EQ(faster.at("fc2.weight"), plain.at("fc2.weight"));
  const std::vector<float>& before = begun.at("fc3.weight");
  float farthest = 0;
  for (const float value : before) farthest = std::max(farthest, std::abs(value));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const float once = plain.at("fc3.weight")[i] - before[i];
    const float twice = faster.at("fc3.weight")[i] - before[i];
    // Each weight was rounded once, at its own magnitude.
    const float rounding = std::numeric_limits<float>::epsilon() * (farthest + std::abs(twice));
    EXPECT_NEAR(twice, 2 * once, 2 * rounding) << i;
  }
}

TEST(FineTuningRun, SettingsReachTheStep) {
  const DataPair data = few_digits();
  const RunOptions options = fine_tuning_run(OptimizerKind::kAdam, false);
  Trainer trainer(options, data.train->image_shape(), 10);
  const amp::TrainStepOptions& step = trainer.model.train_step().options();
  EXPECT_EQ(step.micro_batches, 2);
  EXPECT_EQ(step.max_grad_norm, 0.5);
  EXPECT_STREQ(trainer.optimizer.optimizer->name(), "Adam");
  RunOptions others = options;
  for (const auto& change :
       std::vector<void (*)(RunOptions&)>{[](RunOptions& o) { o.optimizer.beta1 = 0.5; },
                                          [](RunOptions& o) { o.optimizer.beta2 = 0.5; },
                                          [](RunOptions& o) { o.optimizer.eps = 1e-3; },
                                          [](RunOptions& o) { o.optimizer.weight_decay = 0.5; },
                                          [](RunOptions& o) { o.optimizer.clip = 0.25; },
                                          [](RunOptions& o) { o.loss.class_weights.clear(); },
                                          [](RunOptions& o) { o.optimizer.lr_of.clear(); },
                                          [](RunOptions& o) { o.optimizer.accumulate = 4; }}) {
    others = options;
    change(others);
    EXPECT_NE(train_on(others, data).state, train_on(options, data).state);
  }
}

TEST(FineTuningRun, ANewHeadIsNewAndTheRestIsLoaded) {
  const DataPair data = few_digits();
  const data::TempFolder folder;
  RunOptions options = small_run();
  const Shape image = data.train->image_shape();
  options.seed = 7;
  const auto pretrained = make_model(options, image, 20);
  io::write_safetensors(folder.path("w"), pretrained->state());
  options.seed = 1;
  const State fresh = state_of(*make_model(options, image, 10));
  options.fine_tuning.weights = folder.path("w");
  EXPECT_THAT(message_of<nn::StateMismatch>([&] { make_model(options, image, 10); }),
              HasSubstr("fc3.weight"));
  options.fine_tuning.new_head = true;
  const State tuned = state_of(*make_model(options, image, 10));
  const State loaded = state_of(*pretrained);
  for (const auto& [name, values] : tuned) {
    EXPECT_EQ(values, name.starts_with("fc3.") ? fresh.at(name) : loaded.at(name)) << name;
  }
  options.model = "mlp";
  EXPECT_THAT(message_of<ArgumentError>([&] { make_model(options, image, 10); }),
              HasSubstr("no entry of the state fits"));
}

// The loss of a step is the weighted mean, as in PyTorch, and so is that of the evaluation.
TEST(FineTuningRun, ClassWeightsCountInTrainingAndEvaluation) {
  const DataPair data = few_digits();
  RunOptions options = small_run();
  options.policy.level = amp::Level::kO0;
  options.loss.class_weights = {1, 2, 0.5, 1, 1, 3, 1, 1, 0.25, 1};
  options.batch_size = 16;
  const auto net = make_model(options, data.test->image_shape(), 10);
  const Evaluation weighted = evaluate(*net, *data.test, {.batch_size = 16, .loss = options.loss});
  const Evaluation plain = evaluate(*net, *data.test, {.batch_size = 16});
  EXPECT_NE(weighted.loss, plain.loss);
  data::DataLoader loader(*data.test, {.batch_size = 16, .shuffle = false, .workers = 0});
  data::Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const nn::Inference inference(*net);
  const Tensor logits = amp::forward(*net, batch.images, amp::Policy{amp::Level::kO0});
  const Tensor weights = class_weights_of(options.loss, kCpuDevice);
  // Sums of 16 losses in f32.
  const auto near = [](double expected) {
    return testing::DoubleNear(expected,
                               16 * double{std::numeric_limits<float>::epsilon()} * expected);
  };
  EXPECT_THAT(weighted.loss,
              near(cross_entropy(logits, batch.labels, {.class_weights = weights}).item()));
  EXPECT_THAT(plain.loss, near(cross_entropy(logits, batch.labels).item()));
}

TEST(SetClassWeights, BalancedOnesAreThoseOfTheData) {
  const DataPair data = few_digits();
  LossOptions loss{.balances_classes = true};
  set_class_weights(loss, *data.train);
  EXPECT_EQ(loss.class_weights, data::balanced_class_weights(*data.train));
  EXPECT_FALSE(loss.balances_classes);
  const std::vector<double> before = loss.class_weights;
  set_class_weights(loss, *data.train);
  EXPECT_EQ(loss.class_weights, before);
  loss.class_weights = {1, 2};
  EXPECT_THAT(message_of<ArgumentError>([&] { set_class_weights(loss, *data.train); }),
              HasSubstr("[--class-weights] there are 2 weights for 10 classes"));
  LossOptions none;
  set_class_weights(none, *data.train);
  EXPECT_FALSE(class_weights_of(none, kCpuDevice).defined());
}

// Frozen parameters keep their initial values.
TEST(FineTuningRun, FreezesNothingAtRandomValues) {
  const data::TempFolder folder;
  const DataPair data = few_digits();
  RunOptions options = small_run();
  std::vector<NamedTensor> state = make_model(options, data.train->image_shape(), 10)->state();
  for (NamedTensor& entry : state) {
    if (entry.name == "conv1.weight") entry.tensor = ones({6, 3, 5, 5});  // for colour images
  }
  const std::string file = folder.path("w.safetensors");
  io::write_safetensors(file, state);
  options.fine_tuning = {.weights = file, .new_head = true};
  const auto make = [&](const std::vector<std::string>& freeze) {
    options.fine_tuning.freeze = freeze;
    make_model(options, data.train->image_shape(), 10);
  };
  for (const char* pattern : {"conv1", "conv?", "conv1.weight", "fc3"}) {
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  make({"fc1", pattern});
                }),
                HasSubstr(concat("[--freeze] `", pattern, "` would keep ")));
  }
  EXPECT_NO_THROW(make({"conv1.bias", "conv2", "fc1"}));
  options.model = "mlp";
  EXPECT_THAT(message_of<ArgumentError>([&] { make({}); }),
              HasSubstr(concat("[--weights] ", file, ": ")));
}

TEST(CheckClassWeights, SomeImageCounts) {
  const DataPair data = few_digits();
  LossOptions loss;
  EXPECT_NO_THROW(check_class_weights(loss, *data.test, "test"));
  loss.class_weights = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_NO_THROW(check_class_weights(loss, *data.test, "test"));
  loss.class_weights[0] = 1e-50;  // 0 in f32
  EXPECT_THAT(message_of<ArgumentError>([&] { check_class_weights(loss, *data.test, "test"); }),
              HasSubstr("[--class-weights] no test image would count"));
}

}  // namespace
}  // namespace mezzo::train
