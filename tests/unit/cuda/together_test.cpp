// Tests training steps of several processes on cards: they have the bits of one process on a card
// with as many micro-batches, whichever way gradients are exchanged.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/core/work_recorder.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/processes_on_cards.h"
#include "tests/unit/eight_bits/eight_bit_net.h"

namespace mezzo::amp {
namespace {

using distributed::ProcessGroup;
using test::on_cards;
using test::Route;
using test::routes_of;

using CardsTogether = OnCard<>;

constexpr int kSteps = 5;            // the last ones are recorded
constexpr std::int64_t kImages = 8;  // of a step, over all processes

enum class Mode { kEager, kGraph, kRecorded };

struct Kind {
  Policy policy{Level::kO0};
  bool scaled = false;
  Mode mode = Mode::kEager;
  bool norm = false;  // with a batch norm over the images of all processes
};

// The outcome of a training.
struct End {
  std::vector<std::vector<double>> state;
  std::vector<double> losses;
  bool operator==(const End&) const = default;
};

// This process's part of a batch.
Batch part_of(const Batch& batch, const ProcessGroup* group) {
  if (group == nullptr) return batch;
  const std::int64_t each = batch.images.size(0) / group->size();
  const std::int64_t begin = group->rank() * each;
  return {copy_of(slice(batch.images, 0, begin, begin + each)),
          copy_of(slice(batch.labels, 0, begin, begin + each))};
}

// Trains alone if `group` is null.
End train(const Kind& kind, Device card, ProcessGroup* group, std::int64_t micro_batches) {
  manual_seed(21);
  SmallNet net(kind.norm);
  net.to(card);
  if (kind.norm && group != nullptr) nn::convert_sync_batchnorm(net, *group);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  TrainStep step(net, class_loss, optimizer,
                 kind.scaled ? GradScaler({.init_scale = 256}) : GradScaler({}, false),
                 {.policy = kind.policy, .micro_batches = micro_batches, .processes = group});
  if (kind.mode != Mode::kEager) {
    step.set_execution(graph::captured(net, {.enabled = kind.mode == Mode::kRecorded}));
  }
  End end;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    const Batch batch = part_of(small_batch(i, kImages), group);
    end.losses.push_back(step(batch.images.to(card), batch.labels.to(card)).loss);
  }
  end.state = everything(net, optimizer);
  return end;
}

std::vector<End> train_together(const Kind& kind, int size, Route route) {
  std::vector<End> ends(static_cast<std::size_t>(size));
  on_cards(size, route, [&](ProcessGroup& group, Device card) {
    ends[static_cast<std::size_t>(group.rank())] = train(kind, card, &group, 1);
  });
  return ends;
}

void expect_micro_batches(const Kind& kind, int size) {
  const End expected = train(kind, kCard, nullptr, size);
  for (const Route route : routes_of(size)) {
    for (const End& end : train_together(kind, size, route)) {
      EXPECT_EQ(end.state, expected.state) << test::name_of(route) << ", " << size;
      EXPECT_EQ(end.losses, expected.losses) << test::name_of(route) << ", " << size;
    }
  }
}

TEST_F(CardsTogether, StepsAreThoseOnAsManyMicroBatches) {
  for (const Mode mode : {Mode::kEager, Mode::kGraph, Mode::kRecorded}) {
    for (const int size : {2, 4}) expect_micro_batches({.mode = mode}, size);
  }
}

TEST_F(CardsTogether, SoTheyAreIn16Bits) {
  for (const Mode mode : {Mode::kEager, Mode::kRecorded}) {
    expect_micro_batches({.policy = {Level::kO2, DType::kBf16}, .mode = mode}, 2);
    expect_micro_batches({.policy = {Level::kO2, DType::kF16}, .scaled = true, .mode = mode}, 2);
    expect_micro_batches({.policy = {Level::kO1, DType::kBf16}, .mode = mode}, 4);
  }
}

// The ends of all processes, whichever way they exchange and however their steps run.
std::vector<End> ends_with_norms(int size) {
  std::vector<End> ends;
  for (const Route route : routes_of(size)) {
    for (const Mode mode : {Mode::kEager, Mode::kGraph, Mode::kRecorded}) {
      const std::vector<End> some = train_together({.mode = mode, .norm = true}, size, route);
      ends.insert(ends.end(), some.begin(), some.end());
    }
  }
  return ends;
}

// Sums of 288 products in another order, through five updates.
TEST_F(CardsTogether, SynchronizedNormsAreThoseOfOneProcess) {
  const End expected = train({.norm = true}, kCard, nullptr, 1);
  const double tolerance = kSteps * 288 * 0x1p-24;
  for (const int size : {2, 4}) {
    const std::vector<End> ends = ends_with_norms(size);
    for (const End& end : ends) EXPECT_EQ(end, ends.front()) << size;
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(ends.front().losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
    }
  }
}

// Counts the attempts to record parts of a step, and those that succeed.
struct Attempts {
  int tried = 0;
  int made = 0;
};

class CountingRecorder final : public WorkRecorder {
 public:
  CountingRecorder(Device card, Attempts& attempts)
      : recorder_(backend_of(card).make_recorder(card)), attempts_(attempts) {}

  Ref<Recording> record(const std::function<void()>& work) override {
    ++attempts_.tried;
    Ref<Recording> recording = recorder_->record(work);
    ++attempts_.made;
    return recording;
  }

 private:
  std::unique_ptr<WorkRecorder> recorder_;
  Attempts& attempts_;
};

// The norms are cut out without an attempt to record them: others follow before and after them.
TEST_F(CardsTogether, SynchronizedNormsAreCutOutOfRecordings) {
  for (const Route route : routes_of(2)) {
    on_cards(2, route, [](ProcessGroup& group, Device card) {
      SmallNet net;
      net.to(card);
      nn::convert_sync_batchnorm(net, group);
      optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
      TrainStep step(net, class_loss, optimizer, GradScaler({}, false), {.processes = &group});
      Attempts attempts;
      step.set_execution(graph::captured(net, {.make_recorder = [&](Device device) {
                                           return std::make_unique<CountingRecorder>(device,
                                                                                     attempts);
                                         }}));
      const Batch batch = part_of(small_batch(1, kImages), &group);
      for (int i = 0; i < kSteps; ++i) step(batch.images.to(card), batch.labels.to(card));
      EXPECT_GE(attempts.made, 2);
      EXPECT_EQ(attempts.tried, attempts.made);
    });
  }
}

// Counted losses --------------------------------------------------------------------------------
constexpr std::int64_t kExamples = 6;

// A batch in which four labels do not count: those of the first process or micro-batch.
Batch half_ignored() {
  Generator generator(7);
  return {randn({kExamples, 2}, generator), from_values<std::int64_t>({9, 9, 9, 9, 0, 1}, {6})};
}

End train_counted(Device card, ProcessGroup* group, std::int64_t micro_batches, Mode mode) {
  manual_seed(3);
  nn::Linear net(2, 3);
  net.to(card);
  optim::Sgd sgd(net.parameters(), {.lr = 0.5});
  TrainStep step(net, nn::CrossEntropyLoss({.ignore_index = 9}), sgd, GradScaler({}, false),
                 {.micro_batches = micro_batches, .processes = group});
  if (mode != Mode::kEager) {
    step.set_execution(graph::captured(net, {.enabled = mode == Mode::kRecorded}));
  }
  const Batch batch = part_of(half_ignored(), group);
  End end;
  for (int i = 0; i < kSteps; ++i) {
    end.losses.push_back(step(batch.images.to(card), batch.labels.to(card)).loss);
  }
  end.state = everything(net, sgd);
  return end;
}

// Nothing counts in one half. The other half's sum is divided by half the count and its gradient by
// two: powers of two, so that no bit differs.
TEST_F(CardsTogether, CountedLossesAreThoseOfTheWholeBatch) {
  const End expected = train_counted(kCard, nullptr, 2, Mode::kEager);
  EXPECT_FALSE(std::isnan(expected.losses.back()));
  for (const Mode mode : {Mode::kEager, Mode::kGraph, Mode::kRecorded}) {
    for (const Route route : routes_of(2)) {
      on_cards(2, route, [&](ProcessGroup& group, Device card) {
        EXPECT_EQ(train_counted(card, &group, 1, mode), expected) << test::name_of(route);
      });
    }
  }
}

// Means of batches of other sizes: each process's loss has its own factor.
TEST_F(CardsTogether, ProcessesMayHaveBatchesOfDifferentSizes) {
  const auto losses = [](Device card, ProcessGroup* group) {
    manual_seed(3);
    nn::Linear net(2, 3);
    net.to(card);
    optim::Sgd sgd(net.parameters(), {.lr = 0.5});
    TrainStep step(net, nn::MseLoss(), sgd, GradScaler({}, false), {.processes = group});
    Generator generator(5);
    const Tensor x = randn({6, 2}, generator);
    const Tensor y = randn({6, 3}, generator);
    const std::int64_t begin = group == nullptr || group->rank() == 0 ? 0 : 4;
    const std::int64_t end = group == nullptr || group->rank() == 1 ? 6 : 4;
    std::vector<double> found;
    for (int i = 0; i < kSteps; ++i) {
      found.push_back(
          step(copy_of(slice(x, 0, begin, end)).to(card), copy_of(slice(y, 0, begin, end)).to(card))
              .loss);
    }
    return found;
  };
  const std::vector<double> expected = losses(kCard, nullptr);
  for (const Route route : routes_of(2)) {
    on_cards(2, route, [&](ProcessGroup& group, Device card) {
      const std::vector<double> found = losses(card, &group);
      for (std::size_t i = 0; i < kSteps; ++i) {
        EXPECT_NEAR(found[i], expected[i], 64 * 0x1p-24 * expected[i]) << i;
      }
    });
  }
}

// Eight bits -------------------------------------------------------------------------------------
// The largest values that one process has seen are those of all.
TEST_F(CardsTogether, ProcessesHaveTheScalesOfAll) {
  for (const Route route : routes_of(2)) {
    std::vector<std::vector<std::vector<double>>> states(2);
    on_cards(2, route, [&](ProcessGroup& group, Device card) {
      manual_seed(3);
      test::EightBitNet net;
      net.to(card);
      ScalingRecipe recipe = usual_recipe(Scaling::kDelayed);
      recipe.history = 3;
      set_policy(net, {.level = Level::kO2, .eight_bits = make_eight_bits(recipe)});
      optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
      TrainStep step(net, class_loss, optimizer, GradScaler({}, false), {.processes = &group});
      for (std::uint64_t i = 0; i < 3; ++i) {
        const Batch batch = small_batch(10 * i + static_cast<std::uint64_t>(group.rank()));
        step((batch.images * (1 + group.rank())).to(card), batch.labels.to(card));
      }
      auto& state = states[static_cast<std::size_t>(group.rank())];
      state = everything(net, optimizer);
      for (const NamedTensor& entry : step.scale_histories()->state()) {
        state.push_back(entry.tensor.to_vector<double>());
      }
    });
    EXPECT_EQ(states[0], states[1]) << test::name_of(route);
  }
}

}  // namespace
}  // namespace mezzo::amp
