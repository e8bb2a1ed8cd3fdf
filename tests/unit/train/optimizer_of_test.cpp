#include "mezzo/train/optimizer_of.h"

#include <gmock/gmock.h>

#include "mezzo/models/model.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/train/optimizer_names.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<nn::Module> small_lenet() { return models::create("lenet5", {}); }

// In torch 2, SGD must be given its rate; Adam uses 1e-3 without decay, AdamW with 0.01.
TEST(UsualOptions, AreThoseOfPyTorch) {
  EXPECT_EQ(usual_options(OptimizerKind::kSgd).lr, OptimizerOptions{}.lr);
  EXPECT_EQ(usual_options(OptimizerKind::kSgd).weight_decay, 0);
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const OptimizerOptions options = usual_options(kind);
    EXPECT_EQ(options.kind, kind);
    EXPECT_EQ(options.lr, 1e-3);
    EXPECT_EQ(options.beta1, 0.9);
    EXPECT_EQ(options.beta2, 0.999);
    EXPECT_EQ(options.eps, 1e-8);
    EXPECT_EQ(options.weight_decay, kind == OptimizerKind::kAdamW ? 0.01 : 0);
  }
}

TEST(UsualOptions, AreThoseOfTheOptimizer) {
  EXPECT_EQ(usual_options(OptimizerKind::kSgd).momentum, 0.9);
  const OptimizerOptions lion = usual_options(OptimizerKind::kLion);
  EXPECT_EQ(lion.lr, 1e-4);
  EXPECT_EQ(lion.beta2, 0.99);
  const OptimizerOptions rmsprop = usual_options(OptimizerKind::kRmsProp);
  EXPECT_EQ(rmsprop.lr, 0.01);
  EXPECT_EQ(rmsprop.momentum, 0);
}

TEST(Optimizers, AreInTheOrderOfTheirKinds) {
  for (const OptimizerInfo& info : train::optimizers()) {
    EXPECT_EQ(&info_of(info.kind), &info) << info.name;
    EXPECT_EQ(usual_options(info.kind).kind, info.kind);
  }
}

TEST(Optimizers, ReadWhatTheirOptionsHave) {
  EXPECT_TRUE(info_of(OptimizerKind::kSgd).nesterov.has_value());
  EXPECT_FALSE(info_of(OptimizerKind::kSgd).betas.has_value());
  EXPECT_TRUE(info_of(OptimizerKind::kLion).betas.has_value());
  EXPECT_FALSE(info_of(OptimizerKind::kLion).eps.has_value());
  EXPECT_TRUE(info_of(OptimizerKind::kRmsProp).momentum.has_value());
  EXPECT_FALSE(info_of(OptimizerKind::kRmsProp).nesterov.has_value());
}

TEST(MakeOptimizer, OnlyMatricesDecayWhereAskedFor) {
  const auto net = small_lenet();
  OptimizerOptions options = usual_options(OptimizerKind::kAdamW);
  options.weight_decay = 0.5;
  options.decay_matrices = true;
  options.lr_of = {{"fc1", 0.01}, {"fc2.bias", 0.02}};
  const GroupedOptimizer made = make_optimizer(*net, options);
  // Each rate has matrices and biases, but for the last.
  const double of_fc1 = 0.01 / options.lr;
  EXPECT_THAT(made.factors, ElementsAre(1, 1, of_fc1, of_fc1, 0.02 / options.lr));
  EXPECT_EQ(made.optimizer->groups(), 5U);
  EXPECT_THAT(describe(options), HasSubstr("decay 0.5 of matrices"));
  // With a rate of 1, no gradients and a decay of 0.5, what decays becomes half.
  options.lr_of.clear();
  const GroupedOptimizer plain = make_optimizer(*net, options);
  plain.set_rate(1);
  std::vector<std::vector<float>> before;
  for (const Tensor& parameter : net->parameters()) {
    before.push_back(parameter.to_vector<float>());
    parameter.set_grad(zeros(parameter.shape()));
  }
  plain.optimizer->step();
  const std::vector<Tensor> after = net->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    for (float& value : before[i]) value *= after[i].rank() >= 2 ? 0.5F : 1.0F;
    EXPECT_EQ(after[i].to_vector<float>(), before[i]) << i;
  }
}

TEST(ParseOptimizer, KnowsTheNamesThatItGives) {
  for (const OptimizerInfo& info : train::optimizers()) {
    EXPECT_EQ(parse_optimizer(info.name), info.kind);
    EXPECT_STREQ(name_of(info.kind), info.name);
  }
  EXPECT_EQ(optimizer_names(), "sgd, adam, adamw, lion and rmsprop");
  EXPECT_EQ(optimizer_names([](const OptimizerInfo& info) { return info.betas.has_value(); }),
            "adam, adamw and lion");
  EXPECT_FALSE(parse_optimizer("Adam").has_value());
}

TEST(MakeOptimizer, MakesTheKind) {
  const auto net = small_lenet();
  const std::pair<OptimizerKind, std::string> kinds[] = {{OptimizerKind::kSgd, "Sgd"},
                                                         {OptimizerKind::kAdam, "Adam"},
                                                         {OptimizerKind::kAdamW, "AdamW"},
                                                         {OptimizerKind::kLion, "Lion"},
                                                         {OptimizerKind::kRmsProp, "RMSprop"}};
  for (const auto& [kind, name] : kinds) {
    const GroupedOptimizer made = make_optimizer(*net, usual_options(kind));
    EXPECT_EQ(made.optimizer->name(), name);
    EXPECT_EQ(made.optimizer->groups(), 1U);
    EXPECT_EQ(made.optimizer->params().size(), net->parameters().size());
  }
}

TEST(MakeOptimizer, AGroupKeepsItsProportionToTheRateOfTheRun) {
  const auto net = small_lenet();
  OptimizerOptions options{.lr = 0.01};
  options.lr_of = {{"fc*", 0.1}, {"fc3.bias", 0.005}};
  const GroupedOptimizer made = make_optimizer(*net, options);
  EXPECT_THAT(made.factors, ElementsAre(1, 0.1 / 0.01, 0.005 / 0.01));
  EXPECT_EQ(made.optimizer->lr(0), 0.01);
  EXPECT_EQ(made.optimizer->lr(1), 0.1);
  EXPECT_EQ(made.optimizer->lr(2), 0.005);
  made.set_rate(0.25);
  EXPECT_EQ(made.optimizer->lr(0), 0.25);
  EXPECT_EQ(made.optimizer->lr(1), 0.25 * (0.1 / 0.01));
  EXPECT_EQ(made.optimizer->lr(2), 0.25 * (0.005 / 0.01));
  // The later pattern has the bias, and the order of parameters is that of the groups.
  const std::vector<Tensor>& params = made.optimizer->params();
  EXPECT_EQ(params.size(), net->parameters().size());
  EXPECT_EQ(params.back().impl(), net->parameters().back().impl());
  EXPECT_EQ(params.front().impl(), net->parameters().front().impl());
}

// All parameters are in groups: the first group is empty, but still holds the rate of the run.
TEST(MakeOptimizer, TheFirstGroupMayBeEmpty) {
  const auto net = small_lenet();
  OptimizerOptions options{.lr = 0.5};
  options.lr_of = {{"*", 0.25}};
  const GroupedOptimizer made = make_optimizer(*net, options);
  EXPECT_EQ(made.optimizer->lr(), 0.5);
  EXPECT_EQ(made.optimizer->groups(), 2U);
}

TEST(MakeOptimizer, APatternHasSomethingToTrain) {
  const auto net = small_lenet();
  OptimizerOptions options;
  const auto message = [&](std::vector<RateOf> rates) {
    options.lr_of = std::move(rates);
    return message_of<ArgumentError>([&] { make_optimizer(*net, options); });
  };
  EXPECT_THAT(message({{"fc9", 0.1}}), HasSubstr("[--lr-of] no parameter belongs to `fc9`"));
  EXPECT_THAT(message({{"fc3", 0.1}, {"fc*", 0.2}}), HasSubstr("[--lr-of] `fc3` has nothing to"));
  nn::freeze(*net, {"fc1"});
  EXPECT_THAT(message({{"fc1", 0.1}}), HasSubstr("`fc1` has nothing to train: its parameters are"));
  EXPECT_EQ(make_optimizer(*net, {}).optimizer->params().size(), net->parameters().size() - 2);
}

TEST(Describe, NamesWhatTheOptimizerReads) {
  EXPECT_EQ(describe({}), "SGD, momentum 0.9");
  OptimizerOptions options = usual_options(OptimizerKind::kAdamW);
  options.accumulate = 4;
  options.clip = 1.5;
  options.lr_of = {{"fc", 0.1}};
  EXPECT_EQ(describe(options),
            "AdamW, betas 0.9 and 0.999, eps 1e-08, decay 0.01, batches in 4 parts, gradients "
            "clipped to 1.5, rate of fc 0.1");
  EXPECT_EQ(describe({.nesterov = true}), "SGD, momentum 0.9 (Nesterov's)");
  EXPECT_EQ(describe(usual_options(OptimizerKind::kLion)), "Lion, betas 0.9 and 0.99");
  EXPECT_EQ(describe(usual_options(OptimizerKind::kRmsProp)), "RMSprop, momentum 0, eps 1e-08");
}

}  // namespace
}  // namespace mezzo::train
