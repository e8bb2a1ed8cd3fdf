// Tests losses that do not count every label, in micro-batches and in several processes: the loss
// and the gradients are those of the whole batch.
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/distributed/counted_training.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;

const LossRule kIgnoring{.ignore_index = -100};
const LossRule kWeighted{.class_weights = {1, 5, 0.25, 20}};
const LossRule kAll{.ignore_index = 2, .class_weights = {1, 5, 3, 20}, .smoothing = 0.1};

// Checks eager and graph mode, in all dtypes.
void expect_in_all_modes(CountedTraining training) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const bool graph : {false, true}) {
      training.dtype = dtype;
      training.loss_scale = dtype == DType::kF16 ? 64 : 1;
      training.graph = graph;
      expect_whole_batches(training);
    }
  }
}

TEST(LossParts, MicroBatchesAreOneBatch) {
  for (const LossRule& rule : {kIgnoring, kWeighted, kAll}) {
    for (std::int64_t parts = 1; parts <= 7; ++parts) {
      expect_in_all_modes({.loss = rule, .ignores_examples = true, .micro_batches = parts});
    }
  }
}

TEST(LossParts, ProcessesAreOneBatch) {
  for (const LossRule& rule : {kIgnoring, kWeighted, kAll}) {
    for (int processes = 1; processes <= 3; ++processes) {
      expect_in_all_modes({.loss = rule, .processes = processes, .micro_batches = 2});
    }
  }
}

TEST(LossParts, PixelsAreCountedLikeRows) {
  for (const LossRule& rule : {kIgnoring, kWeighted, kAll}) {
    for (const bool whole_images : {false, true}) {
      expect_in_all_modes({.loss = rule,
                           .ignores_examples = whole_images,
                           .processes = 2,
                           .micro_batches = 3,
                           .height = 2,
                           .width = 3});
    }
  }
}

TEST(LossParts, SumsAddUp) {
  for (const LossForm form : {LossForm::kObject, LossForm::kSum}) {
    LossRule rule = kAll;
    rule.reduction = Reduction::kSum;
    expect_in_all_modes({.loss = rule, .form = form, .processes = 3, .micro_batches = 3});
    rule = {.is_of_classes = false, .reduction = Reduction::kSum};
    expect_in_all_modes({.loss = rule, .form = form, .processes = 3, .micro_batches = 3});
  }
}

TEST(LossParts, ALossOfOnesOwnSaysWhatItCounts) {
  const LossRule known{.is_of_classes = false, .leaves_out_unknown = true};
  for (int processes = 1; processes <= 2; ++processes) {
    expect_in_all_modes(
        {.loss = known, .form = LossForm::kCounted, .processes = processes, .micro_batches = 4});
  }
}

TEST(LossParts, ABatchThatCountsNothingSkipsItsStep) {
  for (int processes = 1; processes <= 2; ++processes) {
    expect_in_all_modes(
        {.loss = kIgnoring, .ignored = 1, .processes = processes, .micro_batches = 3});
  }
}

// Single steps ---------------------------------------------------------------------------------
constexpr std::int64_t kExamples = 6;

struct Batch {
  Tensor inputs;
  Tensor labels;
};

// A batch in which four labels do not count: those of the first process or micro-batch.
Batch half_ignored() {
  Generator generator(7);
  return {randn({kExamples, 2}, generator), from_values<std::int64_t>({9, 9, 9, 9, 0, 1}, {6})};
}

Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  return {copy_of(slice(batch.inputs, 0, begin, end)), copy_of(slice(batch.labels, 0, begin, end))};
}

struct Stepped {
  std::vector<float> weight;
  std::vector<double> losses;
  bool operator==(const Stepped&) const = default;
};

// Runs two steps on the same batch.
Stepped step_on(const Batch& batch, const amp::LossFunction& loss, amp::TrainStepOptions options,
                bool graph = false) {
  manual_seed(3);
  nn::Linear net(2, 3);
  optim::Sgd sgd(net.parameters(), {.lr = 0.5});
  amp::TrainStep step(net, loss, sgd, amp::GradScaler({}, false), std::move(options));
  if (graph) step.set_execution(graph::captured(net));
  Stepped stepped;
  for (int i = 0; i < 2; ++i) stepped.losses.push_back(step(batch.inputs, batch.labels).loss);
  stepped.weight = net.weight().to_vector<float>();
  return stepped;
}

// Nothing counts in one half. The other half's sum is divided by half the count and its gradient by
// two: powers of two, so that no bit differs.
TEST(LossParts, ProcessesHaveTheBitsOfAsManyMicroBatches) {
  const Batch batch = half_ignored();
  const nn::CrossEntropyLoss loss({.ignore_index = 9});
  const Stepped expected = step_on(batch, loss, {.micro_batches = 2});
  EXPECT_FALSE(std::isnan(expected.losses[1]));
  for (const bool graph : {false, true}) {
    EXPECT_EQ(step_on(batch, loss, {.micro_batches = 2}, graph), expected);
    in_processes(2, [&](distributed::ProcessGroup& group) {
      const Batch own = part_of(batch, 3 * group.rank(), 3 * group.rank() + 3);
      EXPECT_EQ(step_on(own, loss, {.processes = &group}, graph), expected);
    });
  }
}

// One process has a third of the examples.
TEST(LossParts, ProcessesMayHaveBatchesOfDifferentSizes) {
  const Batch batch = half_ignored();
  const std::vector<amp::LossFunction> losses{
      nn::CrossEntropyLoss({.ignore_index = 9}),
      nn::CrossEntropyLoss({.reduction = Reduction::kSum, .ignore_index = 9}),
      [](const Tensor& output, const Tensor& labels) {
        return mse_loss(output, one_hot(masked_fill(labels, eq(labels, 9), 2), 3));
      }};
  for (const amp::LossFunction& loss : losses) {
    const Stepped expected = step_on(batch, loss, {});
    for (const bool graph : {false, true}) {
      in_processes(2, [&](distributed::ProcessGroup& group) {
        const Batch own = group.rank() == 0 ? part_of(batch, 0, 4) : part_of(batch, 4, 6);
        const Stepped found = step_on(own, loss, {.processes = &group}, graph);
        for (std::size_t i = 0; i < expected.weight.size(); ++i) {
          // Sums of up to six terms of order 1, in another order, twice.
          EXPECT_NEAR(found.weight[i], expected.weight[i], 32 * 0x1p-24) << i;
        }
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_NEAR(found.losses[i], expected.losses[i], 32 * 0x1p-24 * expected.losses[i]);
        }
      });
    }
  }
}

// Some processes would wait for what others do not send.
TEST(LossParts, SumsInOneProcessAndMeansInAnotherAreRefusedEverywhere) {
  in_processes(2, [](distributed::ProcessGroup& group) {
    const nn::CrossEntropyLoss loss(
        {.reduction = group.rank() == 0 ? Reduction::kSum : Reduction::kMean});
    EXPECT_THAT(message_of<ArgumentError>(
                    [&] { step_on(part_of(half_ignored(), 4, 6), loss, {.processes = &group}); }),
                HasSubstr("whether the loss is a sum (1) or a mean (0) of process 1 is 0"));
  });
}

TEST(LossParts, WeightsThatAreTrainedNeedTheWholeBatch) {
  Tensor weights = ones({3});
  weights.set_requires_grad(true);
  const nn::CrossEntropyLoss loss({.class_weights = weights});
  const Batch batch = part_of(half_ignored(), 4, 6);
  EXPECT_NO_THROW(step_on(batch, loss, {}));
  EXPECT_THAT(message_of<ArgumentError>([&] { step_on(batch, loss, {.micro_batches = 2}); }),
              HasSubstr("[train_step] the count of the loss has a gradient"));
}

}  // namespace
}  // namespace mezzo::test
