// Tests trainings that go on with another number of processes.
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/nn/loss.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/distributed/wide_training.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;
using distributed::ProcessGroup;
using testing::HasSubstr;
using Values = std::vector<std::vector<double>>;

constexpr std::int64_t kResumeExamples = 48;
constexpr std::int64_t kStepSize = 12;  // examples of a step, of all processes
constexpr std::int64_t kEpochs = 3;

struct How {
  int processes = 1;
  std::int64_t micro_batches = 1;
  bool shards = false;
  DType state = DType::kF32;
  std::optional<optim::ParamUpdate> rule{};  // of parameters in bf16; f32 if there is none
};

class ResumeTogether : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  Values train_in(ProcessGroup* group, const How& how, std::int64_t epochs,
                  std::int64_t step_size) const {
    Generator generator(4);
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < kResumeExamples; ++i) classes.push_back(i % 10);
    data::TensorBatches loader(
        randn({kResumeExamples, 1024}, generator), from_values(classes, {kResumeExamples}),
        {.batch_size = step_size / how.processes,
         .drop_remainder = true,
         .shard = group != nullptr ? data::shard_of(*group) : data::Shard{}});
    test::WideNet net(40);
    for (const Tensor& param : net.parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.05, param);
    }
    if (how.rule.has_value()) amp::half_parameters(net, DType::kBf16);
    manual_seed(8);
    optim::AdamW optimizer(net.parameters(),
                           {.lr = 0.01,
                            .param_update = how.rule.value_or(optim::ParamUpdate::kMaster),
                            .state_dtype = how.state});
    Model model(net, nn::CrossEntropyLoss(), optimizer,
                {.amp = {.step = {.micro_batches = how.micro_batches,
                                  .processes = group,
                                  .shard_optimizer = how.shards}}});
    ModelCheckpoint checkpoints({.folder = folder_, .keep = 0});
    model.fit(epochs, loader, {.callbacks = {&checkpoints}, .resume = folder_});
    Values values;
    for (const Tensor& param : net.parameters()) values.push_back(param.to_vector<double>());
    return values;
  }

  Values train(const How& how, std::int64_t epochs, std::int64_t step_size = kStepSize) const {
    if (how.processes == 1) return train_in(nullptr, how, epochs, step_size);
    const auto all = test::results_of<Values>(how.processes, [&](ProcessGroup& group) {
      return train_in(&group, how, epochs, step_size);
    });
    for (const Values& values : all) EXPECT_EQ(values, all[0]);
    return all[0];
  }

  Values unbroken(const How& how) {
    const Values values = train(how, kEpochs);
    fs::remove_all(folder_);
    return values;
  }

  const std::string folder_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

// Four parts of three examples each, whose gradients are added up one after the other: by four
// processes, or by one on as many micro-batches.
TEST_F(ResumeTogether, OneGoesOnWithTheBitsOfFour) {
  for (const DType state : {DType::kF32, DType::kBf16, DType::kE4m3}) {
    const How begun{.processes = 4, .shards = true, .state = state};
    const How alone{.processes = 1, .micro_batches = 4, .state = state};
    const Values expected = unbroken(begun);
    EXPECT_EQ(unbroken(alone), expected);
    for (const auto& [first, second] : {std::pair(begun, begun), {begun, alone}, {alone, begun}}) {
      train(first, 1);
      EXPECT_EQ(train(second, kEpochs), expected) << name_of(state);
      fs::remove_all(folder_);
    }
  }
}

// Compensations, and the place in the stream of stochastic rounding.
TEST_F(ResumeTogether, SixteenBitParametersGoOn) {
  for (const auto rule :
       {optim::ParamUpdate::kMaster, optim::ParamUpdate::kKahan, optim::ParamUpdate::kStochastic}) {
    const How begun{.processes = 4, .shards = true, .rule = rule};
    const How alone{.processes = 1, .micro_batches = 4, .rule = rule};
    const Values expected = unbroken(begun);
    for (const auto& [first, second] : {std::pair(begun, begun), {begun, alone}, {alone, begun}}) {
      train(first, 1);
      EXPECT_EQ(train(second, kEpochs), expected) << static_cast<int>(rule);
      fs::remove_all(folder_);
    }
  }
}

TEST_F(ResumeTogether, OneMayGoOnInSeveral) {
  const How begun{.processes = 1, .micro_batches = 2};
  const Values expected = unbroken(begun);
  train(begun, 2);
  EXPECT_EQ(train({.processes = 2, .shards = true}, kEpochs), expected);
}

// Sums in another order differ in their last bits; AdamW's steps are at most a learning rate.
void expect_near(const Values& values, const Values& expected) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values[i].size(); ++j) {
      const double difference = std::abs(values[i][j] - expected[i][j]);
      EXPECT_LT(difference, 0.02);
      sum += difference;
      ++count;
    }
  }
  EXPECT_LT(sum / static_cast<double>(count), 1e-4);
}

TEST_F(ResumeTogether, TwoOrThreeGoOnWhereFourStopped) {
  const How begun{.processes = 4, .shards = true};
  const Values expected = unbroken(begun);
  for (const int processes : {2, 3}) {
    train(begun, 1);
    expect_near(train({.processes = processes, .shards = true}, kEpochs), expected);
    fs::remove_all(folder_);
  }
}

TEST_F(ResumeTogether, StepsOfAnotherSizeAreRefused) {
  train({.processes = 2, .shards = true}, 1);
  EXPECT_THAT(message_of<ArgumentError>([&] { train({.processes = 1}, 2, 6); }),
              HasSubstr("[resume] the loader was one with step_size 12, now it is 6. Processes "
                        "times batch size must stay the same"));
}

// As versions before wrote them, of three processes with four examples each.
TEST_F(ResumeTogether, CheckpointsOfEarlierVersionsAreUnderstood) {
  const How begun{.processes = 3};
  const Values expected = unbroken(begun);
  train(begun, 1);
  io::Checkpoint checkpoint = io::read_latest_checkpoint(folder_).checkpoint;
  auto& loader = checkpoint.values.at("loader");
  loader.erase("step_size");
  loader["batch_size"] = std::int64_t{4};
  loader["processes"] = std::int64_t{3};
  fs::remove_all(folder_);
  io::write_checkpoint(folder_, checkpoint, {});
  EXPECT_EQ(train(begun, kEpochs), expected);
}

}  // namespace
}  // namespace mezzo::train
