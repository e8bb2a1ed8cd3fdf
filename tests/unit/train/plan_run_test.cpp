// Tests runs by a precision plan: that the watch widens what leaves the range of f16, that
// checkpoints keep it, and that a resumed run goes on with the same plan only.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/digits.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/run.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of LeNet-5, with these layers in f16.
amp::PrecisionPlan plan_of_lenet5(const std::vector<std::string>& in_f16) {
  amp::PrecisionPlan plan;
  for (const char* module : {"conv1", "conv2"}) plan.rows.push_back({module, "conv2d"});
  for (const char* module : {"fc1", "fc2", "fc3"}) plan.rows.push_back({module, "linear"});
  for (const char* op : {"relu", "max_pool2d"}) plan.rows.push_back({"", op});
  for (amp::PlanRow& row : plan.rows) {
    if (std::ranges::count(in_f16, row.module) > 0) row.dtype = DType::kF16;
  }
  return plan;
}

class Widenings final : public RunObserver {
 public:
  void on_step(const StepEvent& event) override { losses.push_back(event.report.loss); }
  void on_widened(const WidenEvent& event) override {
    texts.push_back(concat("step ", event.step, ": ", event.text()));
  }

  std::vector<double> losses;
  std::vector<std::string> texts;
};

struct PlanRun : testing::TestWithParam<bool> {
  PlanRun() { options.graph = GetParam(); }

  static RunOptions options_for_a_run() {
    RunOptions options;
    options.batch_size = 16;
    options.optimizer.lr = 1e-3;
    options.steps = 8;
    options.watch_every = 4;
    return options;
  }

  // Writes the initial weights of LeNet-5, those of these parameters times a factor; returns the
  // file.
  static std::string write_scaled_weights(const RunOptions& options,
                                          const std::map<std::string, double>& factors,
                                          std::string file) {
    const auto net = make_model(options, {1, 28, 28}, 10);
    for (const NamedTensor& entry : net->named_parameters()) {
      const auto found = factors.find(entry.name);
      if (found != factors.end()) copy_elements(entry.tensor * found->second, entry.tensor);
    }
    io::write_safetensors(file, models::to_weight_file(*net));
    return file;
  }

  void scale_weights(const std::map<std::string, double>& factors) {
    options.fine_tuning.weights =
        write_scaled_weights(options, factors, folder.path("weights.safetensors"));
  }

  std::vector<std::vector<float>> train(const RunOptions& with) {
    seen = Widenings{};
    std::unique_ptr<nn::Module> trained;
    run(with, data, seen, &trained);
    std::vector<std::vector<float>> weights;
    for (const Tensor& tensor : trained->parameters()) {
      weights.push_back(tensor.to_vector<float>());
    }
    return weights;
  }

  // A run that is stopped after step 5 and resumed must end as the whole run does.
  void expect_resumed_like_unbroken() {
    const std::vector<std::vector<float>> whole = train(options);
    const std::vector<double> losses = seen.losses;
    RunOptions part = options;
    part.checkpoints = {.folder = folder.path("run"), .every = 3};
    part.steps = 5;
    train(part);
    part.steps = options.steps;
    part.checkpoints.resume = true;
    EXPECT_EQ(train(part), whole);
    EXPECT_EQ(seen.losses, std::vector<double>(losses.begin() + 5, losses.end()));
  }

  static DataPair digits() {
    return {data::open_digits(data::Split::kTrain, 320), data::open_digits(data::Split::kTest, 32)};
  }

  data::TempFolder folder;
  DataPair data = digits();
  RunOptions options = options_for_a_run();
  Widenings seen;
};

TEST_P(PlanRun, GoesOnWithoutWideningWhereNumbersFit) {
  options.use_plan(plan_of_lenet5({"conv1", "conv2", "fc1", "fc2", "fc3"}), "plan.json");
  const auto watched = train(options);
  EXPECT_THAT(seen.texts, testing::IsEmpty());
  options.watch_every = 0;
  EXPECT_EQ(train(options), watched);
}

TEST_P(PlanRun, WidensAnOperationThatOverflowsAndResumesWithIt) {
  scale_weights({{"fc1.weight", 1e6}});
  options.optimizer.lr = 1e-12;  // the loss is as large as the weights
  options.use_plan(plan_of_lenet5({"fc1"}), "plan.json");
  expect_resumed_like_unbroken();
  options.checkpoints = {};
  train(options);
  EXPECT_THAT(seen.texts,
              ElementsAre(testing::MatchesRegex(
                  "step 1: `fc1: linear` is computed in f32 from now on, not in f16: at step 1 "
                  "[0-9.e+]+ % of its results were too large for f16, and none when the plan was "
                  "made")));
  EXPECT_TRUE(std::isfinite(seen.losses[1])) << seen.losses[1];
  options.watch_every = 0;
  train(options);
  EXPECT_FALSE(std::isfinite(seen.losses[1])) << "the watch was what helped";
}

TEST_P(PlanRun, WidensAnOperationThatUnderflowsInTheMiddleOfARun) {
  scale_weights({{"conv1.weight", 1e-4}, {"conv1.bias", 0}});
  options.use_plan(plan_of_lenet5({"conv1", "fc3"}), "plan.json");
  expect_resumed_like_unbroken();
  train(options);
  ASSERT_EQ(seen.texts.size(), 1) << testing::PrintToString(seen.texts);
  EXPECT_THAT(seen.texts[0], testing::StartsWith("step 4: `conv1: conv2d` is computed in f32"));
  EXPECT_THAT(seen.texts[0], HasSubstr(" % of its results were too small for f16"));
}

TEST_P(PlanRun, ResumesWithTheSamePlanOnly) {
  options.checkpoints = {.folder = folder.path("run")};
  options.steps = 2;
  options.use_plan(plan_of_lenet5({"fc1"}), "plan.json");
  train(options);
  options.checkpoints.resume = true;
  options.steps = 4;
  const RunOptions same = options;
  options.use_plan(plan_of_lenet5({"fc2"}), "plan.json");
  EXPECT_THAT(message_of<ArgumentError>([&] { train(options); }),
              HasSubstr("the run was started with --plan 7 operations, "));
  options.plan = nullptr;
  EXPECT_THAT(message_of<ArgumentError>([&] { train(options); }), HasSubstr("not (not given)"));
  RunOptions renamed = same;
  amp::PrecisionPlan explained = *same.plan;
  explained.rows[0].reason = "another reason";
  std::swap(explained.rows[0], explained.rows[1]);
  renamed.use_plan(explained, "other.json");
  train(renamed);
  EXPECT_EQ(seen.losses.size(), 2);
}

TEST_P(PlanRun, IsRefusedForAnotherNetworkAndBesideOtherSettings) {
  options.use_plan(plan_of_lenet5({"fc1"}), "plan.json");
  RunOptions other = options;
  other.model = "mlp";
  EXPECT_THAT(message_of<ArgumentError>([&] { train(other); }),
              HasSubstr("the plan is for another network: it has `conv1: conv2d`"));
  options.precision.keep_float32 = {"fc1"};
  EXPECT_THAT(message_of<ArgumentError>([&] { train(options); }),
              testing::StartsWith("[--plan] plan.json says the precision of every operation"));
}

// Only the second process finds something: for the first one, all of the results may be small.
TEST(PlansTogether, AllProcessesWidenWhatOneHasFound) {
  const data::TempFolder folder;
  RunOptions options = PlanRun::options_for_a_run();
  options.fine_tuning.weights = PlanRun::write_scaled_weights(
      options, {{"conv1.weight", 1e-4}, {"conv1.bias", 0}}, folder.path("weights.safetensors"));
  std::vector<std::vector<std::string>> texts(2);
  std::vector<std::vector<float>> weights(2);
  test::in_processes(2, [&](distributed::ProcessGroup& group) {
    amp::PrecisionPlan plan = plan_of_lenet5({"conv1", "fc3"});
    plan.rows[0].lost = group.rank() == 0 ? 1 : 0;
    RunOptions own = options;
    own.use_plan(plan, "plan.json");
    own.processes = &group;
    Widenings seen;
    std::unique_ptr<nn::Module> trained;
    run(own, PlanRun::digits(), seen, &trained);
    const auto rank = static_cast<std::size_t>(group.rank());
    texts[rank] = seen.texts;
    weights[rank] = trained->parameters().front().to_vector<float>();
  });
  EXPECT_THAT(texts[0], ElementsAre(HasSubstr("left the range of f16 in another process")));
  EXPECT_THAT(texts[1], ElementsAre(HasSubstr("of its results were too small for f16")));
  EXPECT_EQ(weights[0], weights[1]);
}

INSTANTIATE_TEST_SUITE_P(Modes, PlanRun, testing::Bool());

TEST(PlanConfiguration, APlanIsItsRows) {
  RunOptions options;
  EXPECT_EQ(configuration_of(options).at("--plan"), "");
  EXPECT_EQ(configuration_of(options).at("--watch-every"), "");
  options.use_plan(plan_of_lenet5({"fc1"}), "plan.json");
  const std::string text = configuration_of(options).at("--plan");
  EXPECT_THAT(text, testing::StartsWith("7 operations, "));
  EXPECT_EQ(configuration_of(options).at("--watch-every"), "100");
  EXPECT_EQ(configuration_of(options).at("--amp"), "auto");
  EXPECT_EQ(configuration_of(options).at("--dtype"), "f16");
  options.use_plan(plan_of_lenet5({"fc2"}), "plan.json");
  EXPECT_NE(configuration_of(options).at("--plan"), text);
  options.use_plan(plan_of_lenet5({}), "plan.json");
  EXPECT_EQ(configuration_of(options).at("--watch-every"), "") << "nothing is watched";
}

}  // namespace
}  // namespace mezzo::train
