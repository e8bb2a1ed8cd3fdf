// Tests what can be added to users' graphs, configured and returned.
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/names/oneflow_scalers.h"
#include "mezzo/graph/text.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/graph/user_graphs.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;

TEST(UserGraphInference, IsTheNetworkWithoutRecording) {
  amp::SmallNet net;
  OneInput graph([&](OneInput&, const Tensor& x) { return net(x); });
  graph.add_module(net);
  graph.config.enable_amp({.level = amp::Level::kO2});
  net.eval();
  net.parameters()[0].set_grad(ones({4, 1, 3, 3}));
  const Tensor result = graph(kBatch.images);
  EXPECT_FALSE(result.requires_grad());
  EXPECT_TRUE(net.parameters()[0].grad().defined()) << "no business of an inference graph";
  const amp::Autocast region({.level = amp::Level::kO2});
  EXPECT_EQ(result.to_vector<double>(), net(kBatch.images).to_vector<double>());
  for (const Node& node : graph.program().nodes) EXPECT_EQ(node.phase, Phase::kForward);
}

TEST(UserGraphResults, ArraysVectorsAndNoInputs) {
  AnyGraph<std::array<Tensor, 2>(Tensor)> pair([](auto&, const Tensor& x) {
    return std::array{x * 2, x + 1};
  });
  const auto [twice, more] = pair(ones({1}));
  EXPECT_EQ(twice.item() + more.item(), 4);
  AnyGraph<std::vector<Tensor>()> none([](auto&) { return std::vector<Tensor>{ones({1}) * 3}; });
  EXPECT_EQ(none().at(0).item(), 3);
}

TEST(UserGraphConfig, RegionsAroundTheCallDoNotCount) {
  OneInput graph([](OneInput&, const Tensor& x) { return matmul(x, x); });
  const amp::Autocast region(DType::kBf16);
  const NoGrad guard;
  const Tensor x = ones({2, 2});
  EXPECT_EQ(graph(x).dtype(), DType::kF32);
  graph.config.enable_amp(true, DType::kBf16);
  EXPECT_EQ(graph(x).dtype(), DType::kBf16);
  graph.config.enable_amp();
  EXPECT_EQ(graph(x).dtype(), DType::kF16);
  graph.config.enable_amp(false);
  EXPECT_EQ(graph(x).dtype(), DType::kF32);
}

TEST(UserGraphConfig, PassesAndPrograms) {
  OneInput graph([](OneInput&, const Tensor& x) { return relu(x) + relu(x); });
  EXPECT_THAT(message_of<ArgumentError>([&] { graph.program(); }), HasSubstr("no program yet"));
  graph(ones({1}));
  EXPECT_EQ(graph.program().nodes.size(), 2U) << to_text(graph.program());
  graph.config.disable_pass("common_subexpressions");
  graph(ones({1}));
  EXPECT_EQ(graph.program().nodes.size(), 3U) << to_text(graph.program());
  graph.config.keep_programs(2);
  for (const std::int64_t n : {1, 2, 3}) graph(ones({n}));
  EXPECT_EQ(graph.programs(), 2U);
  graph.config.disable_pass("no_such_pass");
  EXPECT_THAT(message_of<ArgumentError>([&] { graph(ones({1})); }), HasSubstr("no_such_pass"));
}

TEST(UserGraphConfig, AStaticScalerIsKeptAndSkipsNothing) {
  Training plain;
  Training graphed;
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
    const Tensor loss = loss_of(graphed.net, x, labels);
    self.backward(loss);
    return loss;
  });
  graph.add_module(graphed.net);
  graph.add_optimizer(graphed.optimizer);
  graph.set_grad_scaler(amp::static_grad_scaler(64));
  plain.scaler = amp::static_grad_scaler(64);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(graph(kBatch.images, kBatch.labels).item(),
              plain_step(plain, std::nullopt, kBatch.images, kBatch.labels).item());
  }
  EXPECT_TRUE(graphed.everything() == plain.everything());
  EXPECT_EQ(graph.updates().at(0).step.scale_used, 64);
}

// Two optimizers of one network: an overflow in the second stops the first one, too.
TEST(UserGraphOptimizers, StepTogether) {
  amp::SmallNet net(false);
  const std::vector<Tensor> all = net.parameters();
  optim::Sgd first({all[0], all[1]}, {.lr = 0.1});
  optim::Sgd second({all[4], all[5]}, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 64});
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& infinite) {
    const Tensor loss = sum(net.forward(x)) + sum(all[5] * infinite);
    self.backward(loss);
    return loss;
  });
  graph.add_module(net);
  graph.add_optimizer(first, {.max_grad_norm = 1});
  graph.add_optimizer(second);
  graph.set_grad_scaler(scaler);
  const std::vector<double> before = all[0].to_vector<double>();
  graph(kBatch.images, full({3}, std::numeric_limits<double>::infinity()));
  ASSERT_EQ(graph.updates().size(), 2U);
  EXPECT_FALSE(graph.updates()[0].step.stepped || graph.updates()[1].step.stepped);
  EXPECT_FALSE(graph.updates()[0].step.found_inf);
  EXPECT_TRUE(graph.updates()[1].step.found_inf);
  EXPECT_EQ(all[0].to_vector<double>(), before);
  EXPECT_EQ(scaler.get_scale(), 32);
  graph(kBatch.images, ones({3}));
  EXPECT_TRUE(graph.updates()[0].step.stepped && graph.updates()[1].step.stepped);
  EXPECT_GT(graph.updates()[0].grad_norm.value(), 1);
  EXPECT_FALSE(graph.updates()[1].grad_norm.has_value());
  EXPECT_NE(all[0].to_vector<double>(), before);
}

// Without a scaler, where updates follow gradients.
TEST(UserGraphOptimizers, OneWithoutGradientsHasNothingToDo) {
  nn::Linear used(4, 1);
  nn::Linear unused(4, 1);
  optim::Sgd first(used.parameters(), {.lr = 0.1});
  optim::Sgd second(unused.parameters(), {.lr = 0.1});
  OneInput graph([&](OneInput& self, const Tensor& x) {
    const Tensor loss = mean(used(x));
    return self.backward(loss), loss;
  });
  graph.add_module(used);
  graph.add_module(unused);
  graph.add_optimizer(first);
  graph.add_optimizer(second);
  for (int i = 0; i < 2; ++i) {
    graph(ones({2, 4}));
    ASSERT_EQ(graph.updates().size(), 2U);
    EXPECT_TRUE(graph.updates()[0].step.stepped);
    EXPECT_FALSE(graph.updates()[0].step.nothing_to_do);
    EXPECT_FALSE(graph.updates()[1].step.stepped);
    EXPECT_TRUE(graph.updates()[1].step.nothing_to_do);
  }
}

// The players of a game: each has its graph and leaves nothing at the other's parameters.
TEST(UserGraphOptimizers, TwoGraphsOfTwoNetworks) {
  const auto play = [](bool graphed) {
    manual_seed(8);
    nn::Linear generator(4, 4);
    nn::Linear critic(4, 1);
    optim::Sgd generator_sgd(generator.parameters(), {.lr = 0.1});
    optim::Sgd critic_sgd(critic.parameters(), {.lr = 0.1});
    const auto critic_loss = [&](const Tensor& noise, const Tensor& real) {
      return mean(critic(generator(noise).detach())) - mean(critic(real));
    };
    const auto generator_loss = [&](const Tensor& noise) {
      return mean(critic(generator(noise))) * -1;
    };
    TwoInputs critic_graph([&](TwoInputs& self, const Tensor& noise, const Tensor& real) {
      const Tensor loss = critic_loss(noise, real);
      return self.backward(loss), loss;
    });
    OneInput generator_graph([&](OneInput& self, const Tensor& noise) {
      const Tensor loss = generator_loss(noise);
      return self.backward(loss), loss;
    });
    for (nn::Module* net : {&generator, &critic}) {
      critic_graph.add_module(*net);
      generator_graph.add_module(*net);
    }
    critic_graph.add_optimizer(critic_sgd);
    generator_graph.add_optimizer(generator_sgd);
    const auto plain = [&](optim::Sgd& optimizer, const Tensor& loss) {
      loss.backward();
      optimizer.step();
      critic.zero_grad();
      generator.zero_grad();
    };
    Generator numbers(9);
    for (int i = 0; i < 4; ++i) {
      const Tensor noise = randn({5, 4}, numbers);
      const Tensor real = randn({5, 4}, numbers);
      if (graphed) {
        critic_graph(noise, real);
        generator_graph(noise);
      } else {
        plain(critic_sgd, critic_loss(noise, real));
        plain(generator_sgd, generator_loss(noise));
      }
    }
    for (const Tensor& param : critic.parameters()) EXPECT_FALSE(param.grad().defined());
    std::vector<std::vector<double>> result = amp::everything(generator, generator_sgd);
    result.push_back(critic.weight().to_vector<double>());
    return result;
  };
  EXPECT_TRUE(play(true) == play(false));
}

}  // namespace
}  // namespace mezzo::graph
