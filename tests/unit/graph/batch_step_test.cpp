// Tests captured steps of networks with several inputs, several results and tied weights, whose
// loss is a function of a batch: they have the bits of eager steps.
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/two_towers.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using test::two_tower_batch;
using test::two_tower_loss_of;
using test::TwoTowers;

struct BatchKind {
  amp::Level level = amp::Level::kO0;
  DType dtype = DType::kBf16;
  std::int64_t micro_batches = 1;
  bool recomputed = false;
  bool half = false;
  bool scaled = false;
};

std::vector<std::vector<double>> trained_on_batches(const BatchKind& kind, bool is_captured) {
  manual_seed(3);
  TwoTowers net;
  if (kind.half) amp::half_parameters(net, kind.dtype);
  if (kind.recomputed) nn::recompute(net.query), nn::recompute(net);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, two_tower_loss_of(net), adam,
                      amp::GradScaler({.init_scale = 1024}, kind.scaled),
                      {.policy = amp::Policy{.level = kind.level, .lower = kind.dtype},
                       .micro_batches = kind.micro_batches});
  if (is_captured) step.set_execution(captured(net));
  std::vector<std::vector<double>> result;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::int64_t n = i == 2 ? 6 : 8;
    result.push_back({step(two_tower_batch(i, n)).loss});
  }
  for (auto& entry : amp::everything(net, adam)) result.push_back(std::move(entry));
  return result;
}

TEST(BatchStep, HasTheBitsOfEagerSteps) {
  using enum amp::Level;
  for (const BatchKind& kind :
       {BatchKind{}, BatchKind{.level = kO2}, BatchKind{.level = kO1, .micro_batches = 3},
        BatchKind{.level = kO2, .recomputed = true}, BatchKind{.level = kO2, .half = true},
        BatchKind{.level = kO2, .micro_batches = 2, .half = true},
        BatchKind{.level = kO2, .dtype = DType::kF16, .scaled = true}}) {
    EXPECT_TRUE(trained_on_batches(kind, true) == trained_on_batches(kind, false))
        << static_cast<int>(kind.level) << kind.micro_batches << kind.recomputed << kind.half;
  }
}

// The tied weight has one gradient, the sum of both, and one update.
TEST(BatchStep, ATiedWeightIsUpdatedOnce) {
  for (const bool is_captured : {false, true}) {
    manual_seed(3);
    TwoTowers net;
    net.eval();
    const mezzo::Batch batch = two_tower_batch(1);
    test::two_tower_loss(net(batch.inputs), batch.labels).backward();
    const std::vector<float> grad = net.words.weight().grad().to_vector<float>();
    const std::vector<float> before = net.words.weight().to_vector<float>();
    net.zero_grad();
    optim::Sgd sgd(net.parameters(), {.lr = 0.5});
    EXPECT_EQ(sgd.params().size(), 5U);
    amp::TrainStep step(net, two_tower_loss_of(net), sgd, amp::GradScaler({}, false));
    if (is_captured) step.set_execution(captured(net));
    step(batch);
    const std::vector<float> after = net.next.weight().to_vector<float>();
    // The product by half is exact; the update rounds once, with or without a fused multiply-add.
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i], before[i] - grad[i] * 0.5F) << i;
    }
  }
}

// The same tensors in other places are another step.
TEST(BatchStep, IsCapturedAnewForAnotherLayout) {
  class Either final : public nn::Module {
   public:
    Either() { add("fc", fc); }
    nn::Tensors forward_all(const nn::Tensors& inputs) override {
      return {inputs[1].defined() ? fc(inputs[0]) - fc(inputs[1]) : fc(inputs[0])};
    }
    nn::Linear fc{2, 2};
  };
  const auto losses = [](bool is_captured) {
    manual_seed(3);
    Either net;
    optim::Sgd sgd(net.parameters(), {.lr = 0.1});
    const amp::LossOfBatch loss([&net](mezzo::Batch& batch) {
      const Tensor y = net(batch.inputs)[0];
      return batch.labels.empty() ? sum(y * y) : mse_loss(y, batch.labels[0]);
    });
    amp::TrainStep step(net, loss, sgd, amp::GradScaler({}, false));
    if (is_captured) step.set_execution(captured(net));
    Generator generator(7);
    const Tensor a = randn({4, 2}, generator);
    const Tensor b = randn({4, 2}, generator);
    std::vector<double> result;
    for (int i = 0; i < 2; ++i) {
      result.push_back(step({.inputs = {a, b}}).loss);
      result.push_back(step({.inputs = {a, Tensor()}, .labels = {b}}).loss);
      result.push_back(step({.inputs = {a, a}}).loss);
    }
    return result;
  };
  EXPECT_EQ(losses(true), losses(false));
}

}  // namespace
}  // namespace mezzo::graph
