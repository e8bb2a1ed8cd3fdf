// Tests what users' graphs refuse, and the state after a failure.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/reduce.h"
#include "tests/unit/graph/user_graphs.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;

// The error of `build` with an optimizer and a scaler.
std::string fault_of(const std::function<Tensor(TwoInputs&, amp::SmallNet&, const Tensor&)>& build,
                     bool adds_net = true) {
  Training training;
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& /*labels*/) {
    return build(self, training.net, x);
  });
  if (adds_net) graph.add_module(training.net);
  graph.add_optimizer(training.optimizer);
  graph.set_grad_scaler(training.scaler);
  const auto before = training.everything();
  std::string fault = message_of<ArgumentError>([&] { graph(kBatch.images, kBatch.labels); });
  EXPECT_TRUE(training.everything() == before);
  for (const Tensor& param : training.net.parameters()) EXPECT_FALSE(param.grad().defined());
  return fault;
}

TEST(UserGraphErrors, SayWhatIsMissing) {
  using Self = TwoInputs;
  using Net = amp::SmallNet;
  EXPECT_THAT(fault_of([](Self&, Net& net, const Tensor& x) { return net(x); }),
              HasSubstr("[graph] build() leaves no gradient"));
  EXPECT_THAT(fault_of([](Self&, Net& net, const Tensor& x) {
                const Tensor loss = sum(net(x));
                return loss.backward(), loss;
              }),
              HasSubstr("Call backward(loss) instead of loss.backward()"));
  EXPECT_THAT(fault_of(
                  [](Self& self, Net& net, const Tensor& x) {
                    const Tensor loss = sum(net(x));
                    return self.backward(loss), loss;
                  },
                  false),
              HasSubstr("build() calls a module, `conv`, of a network that was not added"));
  EXPECT_THAT(
      fault_of([](Self&, Net& net, const Tensor& x) { return net(x) * sum(net(x)).item(); }),
      HasSubstr("the step depends on data"));
  EXPECT_THAT(fault_of([](Self& self, Net& net, const Tensor& x) {
                return self.backward(sum(net(x))), Tensor();
              }),
              HasSubstr("result 0 of build() is undefined"));
}

TEST(UserGraphErrors, InputsAndOptimizers) {
  OneInput graph([](OneInput& self, const Tensor& x) { return self.backward(sum(x)), x; });
  EXPECT_THAT(message_of<ArgumentError>([&] { graph(Tensor()); }),
              HasSubstr("[graph] input 0 is undefined"));
  EXPECT_THAT(message_of<ArgumentError>([&] { graph(ones({1})); }), HasSubstr("nothing to update"));
  Training training;
  graph.add_optimizer(training.optimizer);
  EXPECT_THAT(message_of<ArgumentError>([&] { graph.add_optimizer(training.optimizer); }),
              HasSubstr("belongs to an optimizer that was added before"));
  optim::Sgd other({ones({1}).set_requires_grad(true)}, {.lr = 1});
  EXPECT_THAT(message_of<ArgumentError>([&] { graph.add_optimizer(other, {.max_grad_norm = -1}); }),
              HasSubstr("max_grad_norm must be positive: -1"));
}

// A user's host work fails in the second run.
TEST(UserGraphErrors, ARunThatFailsLeavesAnIterationThatCanBegin) {
  Training training;
  int runs = 0;
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
    const Tensor loss = loss_of(training.net, x, labels);
    self.backward(loss);
    do_host_work("look", {}, {}, [&](std::span<const Tensor>) {
      check_arg(++runs != 2, "look", "enough");
      return true;
    });
    return loss;
  });
  graph.add_module(training.net);
  graph.add_optimizer(training.optimizer);
  graph.set_grad_scaler(training.scaler);
  const auto step = [&] { graph(kBatch.images, kBatch.labels); };
  step();
  EXPECT_EQ(message_of<ArgumentError>(step), "[look] enough");
  EXPECT_TRUE(graph.updates().empty());
  step();
  EXPECT_EQ(training.optimizer.updates(), 2);
}

}  // namespace
}  // namespace mezzo::graph
