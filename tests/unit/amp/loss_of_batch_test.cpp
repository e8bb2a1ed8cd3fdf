// Tests training steps whose loss is a function of a batch.
#include "mezzo/amp/loss_of_batch.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/plan.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/two_towers.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using test::two_tower_batch;
using test::two_tower_loss;
using test::two_tower_loss_of;
using test::TwoTowers;
using testing::HasSubstr;
using Values = std::vector<std::vector<double>>;

GradScaler unscaled() { return GradScaler({}, false); }

// Three steps on two towers, by a TrainStep or by hand: the parameters and the state of the
// optimizer afterwards.
Values after_steps(const Policy& policy, bool by_hand) {
  manual_seed(3);
  TwoTowers net;
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  TrainStep step(net, two_tower_loss_of(net), adam, unscaled(), {.policy = policy});
  for (std::uint64_t i = 0; i < 3; ++i) {
    const mezzo::Batch batch = two_tower_batch(i);
    if (!by_hand) {
      step(batch);
      continue;
    }
    nn::Tensors results = forward(net, batch.inputs, policy);
    two_tower_loss(results, batch.labels).backward();
    adam.step();
    adam.zero_grad();
  }
  return everything(net, adam);
}

TEST(LossOfBatch, StepsAsTheirCallsWould) {
  for (const Level level : {Level::kO0, Level::kO2}) {
    const Policy policy{.level = level, .lower = DType::kBf16};
    EXPECT_EQ(after_steps(policy, false), after_steps(policy, true)) << name_of(level);
  }
}

// A loss of one output and one tensor of labels, in either form.
TEST(LossOfBatch, IsALossFunctionToo) {
  const auto train = [](bool of_batch) {
    manual_seed(3);
    SmallNet net;
    optim::Sgd sgd(net.parameters(), {.lr = 0.1});
    const LossOfBatch loss(
        [&net](mezzo::Batch& batch) { return class_loss(net(batch.inputs[0]), batch.labels[0]); });
    const TrainStepOptions options{.policy = Policy{Level::kO2, DType::kBf16}, .micro_batches = 3};
    TrainStep step = of_batch ? TrainStep(net, loss, sgd, unscaled(), options)
                              : TrainStep(net, class_loss, sgd, unscaled(), options);
    Values values;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Batch batch = small_batch(i);
      values.push_back({of_batch ? step({.inputs = {batch.images}, .labels = {batch.labels}}).loss
                                 : step(batch.images, batch.labels).loss});
    }
    for (auto& entry : everything(net, sgd)) values.push_back(std::move(entry));
    return values;
  };
  EXPECT_EQ(train(true), train(false));
}

// What the function computes outside of modules is not cast, and it gets f32 results, whether it
// calls the network or parts of it, and wherever the precision comes from.
TEST(LossOfBatch, IsF32AroundModulesInTheRegion) {
  enum class From { kPolicy, kNetwork, kRegion };
  for (const From from : {From::kPolicy, From::kNetwork, From::kRegion}) {
    for (const bool parts : {false, true}) {
      TwoTowers net;
      net.eval();
      if (from == From::kNetwork) auto_mixed_precision(net, "O2", DType::kBf16);
      bool is_bf16 = false;
      const LossOfBatch loss([&](mezzo::Batch& batch) {
        EXPECT_FALSE(is_autocast_enabled());
        const Tensor a = parts ? net.query(ones({8, test::kTowerWidth})) : net(batch.inputs)[0];
        EXPECT_EQ(a.dtype(), DType::kF32);
        is_bf16 = a.to_vector<float>() == a.astype(DType::kBf16).to_vector<float>();
        const Tensor products = matmul(a, a, {.transpose_b = true});
        EXPECT_EQ(products.dtype(), DType::kF32);
        return sum(products);
      });
      optim::Sgd sgd(net.parameters(), {.lr = 0.1});
      TrainStepOptions options;
      if (from == From::kPolicy) options.policy = Policy{Level::kO2, DType::kBf16};
      TrainStep step(net, loss, sgd, unscaled(), options);
      if (from == From::kRegion) {
        const Autocast region(DType::kBf16);
        step(two_tower_batch(1));
      } else {
        step(two_tower_batch(1));
      }
      EXPECT_TRUE(is_bf16) << static_cast<int>(from) << parts;
    }
  }
}

Values gradients_of(std::int64_t micro_batches, const auto& make_loss) {
  manual_seed(3);
  TwoTowers net;
  net.eval();  // without dropout, which draws other numbers for parts
  optim::Sgd sgd(net.parameters(), {.lr = 1});
  const Values before = everything(net, sgd);
  TrainStep step(net, make_loss(net), sgd, unscaled(), {.micro_batches = micro_batches});
  const double loss = step(two_tower_batch(1, 8)).loss;
  Values changes = everything(net, sgd);
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t k = 0; k < before[i].size(); ++k) changes[i][k] -= before[i][k];
  }
  changes.push_back({loss});
  return changes;
}

// A sum of up to `terms` terms of up to about 8, each rounded.
void expect_near(const Values& a, const Values& b, double terms) {
  ASSERT_EQ(a.size(), b.size());
  const double bound = terms * 8 * 0x1p-24;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k) EXPECT_NEAR(a[i][k], b[i][k], bound) << i;
  }
}

// Every tensor is split, whatever kind of mean the loss is.
TEST(LossOfBatch, PartsAreTheWholeBatch) {
  const auto mean = [](TwoTowers& net) { return two_tower_loss_of(net); };
  const auto sum_of = [](TwoTowers& net) {
    return LossOfBatch::sum_of([&net](mezzo::Batch& batch) {
      return cross_entropy(net(batch.inputs)[2], batch.labels[1], {.reduction = Reduction::kSum});
    });
  };
  // The word 1 does not count.
  const CrossEntropyOptions options{.reduction = Reduction::kSum, .ignore_index = 1};
  const auto counted = [&options](TwoTowers& net) {
    return LossOfBatch::mean_over(
        [options](const mezzo::Batch& batch) {
          return cross_entropy_count(batch.labels[1], options);
        },
        [&net, options](mezzo::Batch& batch) {
          return cross_entropy(net(batch.inputs)[2], batch.labels[1], options);
        },
        1);
  };
  constexpr double kTerms = 8 * 11 + 8 * 8 + 64;  // examples, words and products of a path
  for (const std::int64_t parts : {2, 3, 8}) {
    expect_near(gradients_of(parts, mean), gradients_of(1, mean), kTerms);
    expect_near(gradients_of(parts, sum_of), gradients_of(1, sum_of), kTerms * 8);
    expect_near(gradients_of(parts, counted), gradients_of(1, counted), kTerms);
  }
}

TEST(LossOfBatch, RefusesTensorsOfOtherLengths) {
  TwoTowers net;
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  TrainStep step(net, two_tower_loss_of(net), sgd, unscaled(), {.micro_batches = 2});
  mezzo::Batch batch = two_tower_batch(1, 6);
  batch.labels[1] = slice(batch.labels[1], 0, 0, 5);
  EXPECT_THAT(message_of([&] { step(batch); }),
              HasSubstr("[batch] labels 1 is i64[5] in a batch of 6 examples"));
  EXPECT_THAT(message_of([&] { step(two_tower_batch(1, 1)); }),
              HasSubstr("cannot split a batch of 1 examples into 2 micro-batches"));
  EXPECT_THAT(message_of([&] { step(mezzo::Batch()); }), HasSubstr("there is no tensor"));
}

TEST(LossOfBatch, RefusesWhatIsNoScalar) {
  TwoTowers net;
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  const auto refused = [&](const LossOfBatch& loss) {
    TrainStep step(net, loss, sgd, unscaled());
    return message_of([&] { step(two_tower_batch(1)); });
  };
  EXPECT_THAT(refused([&](mezzo::Batch& batch) { return net(batch.inputs)[0]; }),
              HasSubstr("must be a scalar"));
  EXPECT_THAT(refused([](mezzo::Batch&) { return Tensor(); }), HasSubstr("undefined tensor"));
  EXPECT_THAT(
      message_of([&] { TrainStep(net, LossOfBatch(LossOfBatch::Function()), sgd, unscaled()); }),
      HasSubstr("the loss function is null"));
  EXPECT_THROW(LossOfBatch::sum_of(nullptr), ArgumentError);
  EXPECT_THROW(LossOfBatch::mean_over(nullptr, nullptr), ArgumentError);
}

// A network of several inputs and one result trains with a loss of one output.
TEST(LossOfBatch, ALossFunctionTakesSeveralInputs) {
  class Joined final : public nn::Module {
   public:
    Joined() { add("fc", fc); }
    nn::Tensors forward_all(const nn::Tensors& inputs) override {
      return {fc(cat({inputs[0], inputs[1]}, 1))};
    }
    nn::Linear fc{4, 3};
  } net;
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  TrainStep step(net, nn::CrossEntropyLoss(), sgd, unscaled(), {.micro_batches = 2});
  mezzo::Batch batch{.inputs = {randn({4, 2}), randn({4, 2})}, .labels = {zeros({4}, DType::kI64)}};
  const double first = step(batch).loss;
  EXPECT_LT(step(batch).loss, first);
  batch.labels.push_back(batch.labels[0]);
  EXPECT_THAT(message_of([&] { step(batch); }), HasSubstr("takes one tensor of labels"));
  TwoTowers towers;
  optim::Sgd other(towers.parameters(), {.lr = 0.1});
  TrainStep wrong(towers, nn::CrossEntropyLoss(), other, unscaled());
  batch = two_tower_batch(1);
  batch.labels.pop_back();
  EXPECT_THAT(message_of([&] { wrong(batch); }),
              HasSubstr("takes one output, and the network has 3 results"));
}

TEST(LossOfBatch, ScalesAndSkipsAsOthers) {
  TwoTowers net;
  auto_mixed_precision(net, "O2", DType::kF16);
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  TrainStep step(net, two_tower_loss_of(net), sgd, GradScaler({.init_scale = 0x1p60}));
  const Values before = everything(net, sgd);
  const TrainStepResult result = step(two_tower_batch(1));
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.next_scale, 0x1p59);
  EXPECT_EQ(everything(net, sgd), before);
}

TEST(LossOfBatch, RecomputedNetworksGiveTheSameBits) {
  const auto train = [](bool again) {
    manual_seed(3);
    TwoTowers net;
    if (again) nn::recompute(net.query), nn::recompute(net.text);
    optim::Sgd sgd(net.parameters(), {.lr = 0.1});
    TrainStep step(net, two_tower_loss_of(net), sgd, unscaled(),
                   {.policy = Policy{Level::kO2, DType::kBf16}});
    for (std::uint64_t i = 0; i < 3; ++i) step(two_tower_batch(i));
    return everything(net, sgd);
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(LossOfBatch, IsEvaluated) {
  TwoTowers net;
  net.eval();
  mezzo::Batch batch = two_tower_batch(1);
  const double loss = two_tower_loss_of(net).of_batch(batch).value();
  EXPECT_EQ(loss, two_tower_loss(net(batch.inputs), batch.labels).item());
  EXPECT_EQ(batch.output.shape(), (Shape{8, test::kTowerWords}));
}

TEST(LossOfBatch, IsPlanned) {
  TwoTowers net;
  const Plan plan =
      make_plan(net, two_tower_loss_of(net), two_tower_batch(1), {Level::kO2, DType::kBf16});
  const auto find = [&](std::string_view path, std::string_view op) {
    for (const PlannedOp& planned : plan.ops) {
      if (planned.path == path && planned.op == op) return planned;
    }
    ADD_FAILURE() << path << ' ' << op;
    return PlannedOp();
  };
  EXPECT_EQ(find("query.fc", "linear").dtype, DType::kBf16);
  EXPECT_EQ(find("next", "linear").dtype, DType::kBf16);
  EXPECT_EQ(find("", "mse_loss").dtype, DType::kF32);
  EXPECT_EQ(find("", "cross_entropy").dtype, DType::kF32);
}

TEST(LossOfBatch, ABatchKeepsPlacesThatAreLeftOut) {
  const Tensor x = zeros({3, 2});
  const mezzo::Batch batch{.inputs = {Tensor(), x}, .labels = {x, Tensor(), x}};
  const nn::Tensors tensors = tensors_of(batch);
  EXPECT_EQ(tensors.size(), 3U);
  const mezzo::Batch again = batch_of(layout_of(batch), tensors);
  EXPECT_EQ(layout_of(again), layout_of(batch));
  EXPECT_FALSE(again.inputs[0].defined());
  EXPECT_EQ(again.labels[2].impl(), x.impl());
  EXPECT_EQ(batch.slice(1, 3).labels[2].shape(), (Shape{2, 2}));
  EXPECT_EQ(batch.size(), 3);
  EXPECT_NO_THROW(batch.check_rows());
}

}  // namespace
}  // namespace mezzo::amp
