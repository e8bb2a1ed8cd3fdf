#include "mezzo/amp/names/build_train_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/warnings.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;

// The result of build_train_network() for a network.
struct Built {
  explicit Built(const TrainNetworkOptions& options, const LossFunction& loss = class_loss)
      : step(build_train_network(net, loss, optimizer, options)) {}

  std::optional<Policy> policy() const { return policy_of(net); }

  SmallNet net;
  optim::Sgd optimizer{net.parameters(), {.lr = 0.1}};
  TrainStep step;
};

std::string refusal_of(const TrainNetworkOptions& options) {
  return message_of<ArgumentError>([&] { const Built built(options); });
}

struct Defaults {
  const char* level;
  DType dtype;
  Level applied;  // O0: no setting
  bool keeps_batchnorm;
  double scale;  // 1: no loss scaling
};

constexpr Defaults kDefaults[] = {
    {"O0", DType::kF16, Level::kO0, true, 1},      {"O1", DType::kF16, Level::kO1, true, 1},
    {"O2", DType::kF16, Level::kO2, true, 0x1p24}, {"O3", DType::kF16, Level::kO3, false, 1},
    {"auto", DType::kF16, Level::kAuto, true, 1},  {"O0", DType::kBf16, Level::kO0, true, 1},
    {"O1", DType::kBf16, Level::kO1, true, 1},     {"O2", DType::kBf16, Level::kO2, true, 1},
    {"O3", DType::kBf16, Level::kO3, false, 1},    {"auto", DType::kBf16, Level::kAuto, true, 1},
};

TEST(BuildTrainNetwork, DefaultsFollowFromTheLevel) {
  for (const Defaults& row : kDefaults) {
    const Built built({.level = row.level, .dtype = row.dtype});
    const Policy policy = built.policy().value_or(Policy{.level = Level::kO0});
    EXPECT_EQ(policy.level, row.applied) << row.level;
    EXPECT_EQ(policy.keeps_batchnorm(), row.keeps_batchnorm) << row.level;
    EXPECT_EQ(policy.dtype(), row.applied == Level::kO0 ? DType::kF32 : row.dtype) << row.level;
    EXPECT_EQ(built.step.scaler().is_enabled(), row.scale != 1) << row.level;
    EXPECT_EQ(built.step.scaler().get_scale(), row.scale) << row.level;
  }
  for (const char* level : {"O1", "O3", "auto"}) {
    EXPECT_THAT(warnings.text(), HasSubstr(concat("f16 at level ", level, " without loss")));
  }
}

TEST(BuildTrainNetwork, Bf16ScalesIfAskedAndSaysThatItNeedNot) {
  const Built built(
      {.level = "O2", .dtype = DType::kBf16, .loss_scale_manager = DynamicLossScaleManager(64)});
  EXPECT_EQ(built.step.scaler().get_scale(), 64);
  EXPECT_THAT(warnings.text(), HasSubstr("bf16 has the range of f32"));
}

struct Override {
  const char* level;
  std::optional<bool> keeps;
  std::optional<DType> model_type;
  std::optional<Policy> policy;  // empty: the network is left as it is
};

TEST(BuildTrainNetwork, OverridesDecideInMindSporesOrder) {
  const DType f16 = DType::kF16;
  const DType bf16 = DType::kBf16;
  const DType f32 = DType::kF32;
  const Override overrides[] = {
      {"O2", false, {}, Policy{Level::kO3, f16, false}},
      {"O3", true, {}, Policy{Level::kO2, f16, true}},
      {"O0", {}, f16, Policy{Level::kO3, f16, false}},
      {"O1", true, bf16, Policy{Level::kO2, bf16, true}},
      {"O2", {}, f32, std::nullopt},
      {"O3", true, f32, std::nullopt},
      {"O2", false, f32, Policy{Level::kO3, f16, false}},
      {"O1", false, {}, Policy{Level::kO1, f16}},
      {"auto", false, {}, Policy{Level::kAuto, f16}},
  };
  for (const Override& o : overrides) {
    const Built built({.level = o.level,
                       .keep_batchnorm_fp32 = o.keeps,
                       .cast_model_type = o.model_type,
                       .loss_scale_manager = FixedLossScaleManager()});
    EXPECT_EQ(built.policy(), o.policy) << o.level;
    EXPECT_EQ(built.step.scaler().get_scale(), 128) << o.level;
  }
}

TEST(BuildTrainNetwork, AManagerOverridesTheLevels) {
  EXPECT_FALSE(
      Built({.level = "O2", .loss_scale_manager = LossScaleManager()}).step.scaler().is_enabled());
  const DynamicLossScaleManager manager(0x1p127);
  Built built({.level = "O0", .loss_scale_manager = manager}, steep_loss);
  const Batch batch = small_batch(1);
  EXPECT_TRUE(built.step(batch.images, batch.labels).skipped);
  EXPECT_EQ(manager.get_loss_scale(), 0x1p126);
}

TEST(BuildTrainNetwork, TrainsAtEveryLevelWithAnF32Loss) {
  for (const Defaults& row : kDefaults) {
    Built built({.level = row.level,
                 .dtype = row.dtype,
                 .loss_scale_manager = row.dtype == DType::kF16
                                           ? LossScaleManager(LossScaleOptions{.init_scale = 256})
                                           : LossScaleManager()});
    const Batch batch = small_batch(1);
    const double first = built.step(batch.images, batch.labels).loss;
    TrainStepResult last;
    for (int i = 0; i < 10; ++i) last = built.step(batch.images, batch.labels);
    EXPECT_FALSE(last.skipped) << row.level;
    EXPECT_LT(last.loss, first) << row.level;
  }
}

TEST(BuildTrainNetwork, LabelsIn16BitsAreCastForTheLoss) {
  nn::Linear net(2, 2);
  optim::Sgd optimizer(net.parameters());
  DType seen_output = DType::kI64;
  DType seen_labels = DType::kI64;
  const auto loss = [&](const Tensor& output, const Tensor& labels) {
    seen_output = output.dtype();
    seen_labels = labels.dtype();
    return mse_loss(output, labels);
  };
  auto step = build_train_network(net, loss, optimizer, {.level = "O2", .dtype = DType::kBf16});
  step(ones({4, 2}), ones({4, 2}, DType::kBf16));
  EXPECT_EQ(seen_output, DType::kF32);
  EXPECT_EQ(seen_labels, DType::kF32);
}

// A linear layer that records its output's dtype, for a step without a precision setting.
struct Observed {
  class Net : public nn::Module {
   public:
    Net() { add("fc", fc_); }
    Tensor forward(const Tensor& x) override {
      const Tensor y = fc_(x);
      seen = y.dtype();
      return y;
    }
    DType seen = DType::kI64;

   private:
    nn::Linear fc_{4, 4};
  };

  DType dtype_in_step(const TrainNetworkOptions& options = {}) {
    auto step = build_train_network(
        net, [](const Tensor& y, const Tensor& labels) { return mse_loss(y, labels); }, optimizer,
        options);
    step(ones({2, 4}), zeros({2, 4}));
    return net.seen;
  }

  Net net;
  optim::Sgd optimizer{net.parameters()};
};

TEST(BuildTrainNetwork, O0LeavesTheNetworksOwnPrecision) {
  for (const TrainNetworkOptions& options : {TrainNetworkOptions{}, {.level = "O0"}}) {
    Observed observed;
    auto_mixed_precision(observed.net, "O2", DType::kBf16);
    EXPECT_EQ(observed.dtype_in_step(options), DType::kBf16);
    EXPECT_TRUE(policy_of(observed.net).has_value());
  }
  EXPECT_EQ(Observed().dtype_in_step(), DType::kF32);
}

TEST(BuildTrainNetwork, SaysSoOfAPartInF16) {
  for (const char* level : {"O0", "O2"}) {
    SmallNet net;
    to_float(*net.find("fc"), DType::kF16);
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    const auto step =
        build_train_network(net, class_loss, optimizer, {.level = level, .dtype = DType::kBf16});
    EXPECT_EQ(step.scaler().is_enabled(), std::string_view(level) == "O2");
  }
  EXPECT_THAT(warnings.text(), HasSubstr("f16 at level O0 without loss scaling"));
}

TEST(BuildTrainNetwork, SaysThatTheNetworksOwnF16IsNotScaledAtO0) {
  Observed observed;
  auto_mixed_precision(observed.net, "O2", DType::kF16);
  observed.dtype_in_step();
  EXPECT_THAT(warnings.text(), HasSubstr("f16 at level O0 without loss scaling"));
}

TEST(BuildTrainNetwork, AStepWithoutAPolicyStaysInTheCallersRegion) {
  const Autocast region(DType::kBf16);
  EXPECT_EQ(Observed().dtype_in_step(), DType::kBf16);
  EXPECT_EQ(Observed().dtype_in_step({.step = {.policy = Policy{.level = Level::kO0}}}),
            DType::kF32);
  EXPECT_EQ(Observed().dtype_in_step({.step = {.policy = Policy{.lower = DType::kF16}}}),
            DType::kF16);
}

// A region of 16 bits around a step only applies to the network. Otherwise a loss of 1 + 2^-10
// would become 1 in bf16, and the sum of the parts' gradients would be rounded.
TEST(BuildTrainNetwork, LossAndMicroBatchesStayInF32InACallersRegion) {
  for (const std::int64_t parts : {1, 2}) {
    nn::Sequential net;
    net.emplace<nn::Linear>(1, 1);
    to_float(net, DType::kF32);
    fill(net.parameters()[0].detach(), 1 + 0x1p-10);
    fill(net.parameters()[1].detach(), 0);
    optim::Sgd optimizer(net.parameters(), {.lr = 0});
    const auto loss = [](const Tensor& y, const Tensor&) { return mean(y * 1.0); };
    auto step = build_train_network(net, loss, optimizer, {.step = {.micro_batches = parts}});
    const Autocast region({.level = Level::kO3, .lower = DType::kBf16});
    EXPECT_EQ(step(ones({2, 1}), zeros({2, 1})).loss, 1 + 0x1p-10) << parts;
  }
}

TEST(BuildTrainNetwork, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal_of({.level = "O4"}),
              HasSubstr("unknown level `O4`. Known levels are O0, O1, auto, O2 and O3"));
  EXPECT_THAT(refusal_of({.level = "O1", .dtype = DType::kF32}), HasSubstr("dtype must be"));
  EXPECT_NO_THROW(Built({.level = "O0", .dtype = DType::kF32}));  // the dtype is irrelevant at O0
  EXPECT_THAT(refusal_of({.level = "O2", .cast_model_type = DType::kI64}),
              HasSubstr("cast_model_type must be f32, bf16 or f16"));
  EXPECT_THAT(refusal_of({.step = {.micro_batches = 0}}), HasSubstr("micro_batches"));
}

TEST(BuildTrainNetwork, AnErrorLeavesTheNetworkAsItWas) {
  SmallNet net;
  optim::Sgd optimizer(net.parameters());
  EXPECT_THROW(build_train_network(net, class_loss, optimizer,
                                   {.level = "O2", .step = {.max_grad_norm = -1}}),
               ArgumentError);
  EXPECT_FALSE(policy_of(net).has_value());
}

}  // namespace
}  // namespace mezzo::amp
