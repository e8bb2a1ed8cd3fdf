// Tests which changes a compiled step notices by itself, and which it refuses.
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/graph.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;
using Floats = std::vector<double>;

// The leaf belongs to no network: only the program knows it.
TEST(CompileGuards, ALeafThatIsFrozenOrThawedIsCapturedAgain) {
  Tensor w = ones({2}).set_requires_grad(true);
  const Tensor v = ones({2}).set_requires_grad(true);
  optim::Sgd sgd({w, v}, {.lr = 1});
  CompiledStep step = compile([&](Tensors in) {
    sum((w + v) * in[0]).backward();
    sgd.step();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  const Tensor x = ones({2});
  step({&x, 1});
  w.set_requires_grad(false);
  step({&x, 1});
  EXPECT_EQ(w.to_vector<double>(), (Floats{0, 0}));
  EXPECT_EQ(v.to_vector<double>(), (Floats{-1, -1}));
  w.set_requires_grad(true);
  for (int i = 0; i < 2; ++i) step({&x, 1});
  EXPECT_EQ(w.to_vector<double>(), (Floats{-2, -2}));
  EXPECT_EQ(step.programs(), 2U);
}

TEST(CompileGuards, RefusesALearningRateThatTheStepSets) {
  const Tensor w = ones({2}).set_requires_grad(true);
  optim::Sgd sgd({w}, {.lr = 1});
  CompiledStep step = compile([&](Tensors in) {
    sum(w * in[0]).backward();
    sgd.set_lr(sgd.lr() * 0.5);
    sgd.step();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  const Tensor x = ones({2});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                step({&x, 1});
              }),
              HasSubstr("set_lr() within a captured step"));
  EXPECT_EQ(sgd.lr(), 1);
}

TEST(CompileGuards, RefusesToSetALossScalesRulesWithinAStep) {
  const std::vector<std::function<void(amp::GradScaler&)>> changes{
      [](amp::GradScaler& scaler) { scaler.set_growth_factor(4); },
      [](amp::GradScaler& scaler) { scaler.set_backoff_factor(0.25); },
      [](amp::GradScaler& scaler) { scaler.set_growth_interval(3); },
      [](amp::GradScaler& scaler) { scaler.state().set_scale(8); },
      [](amp::GradScaler& scaler) { scaler.load_state_dict(amp::GradScaler().state_dict()); },
  };
  const Tensor x = ones({2});
  for (const auto& change : changes) {
    amp::GradScaler scaler({.init_scale = 4});
    const amp::GradScaler::StateDict before = scaler.state_dict();
    CompiledStep step = compile([&](Tensors in) {
      change(scaler);
      return std::vector<Tensor>{in[0] * 2};
    });
    const auto call = [&] { step({&x, 1}); };
    EXPECT_THAT(message_of<ArgumentError>(call), HasSubstr("set within a captured step"));
    EXPECT_EQ(scaler.state_dict(), before);
  }
}

TEST(CompileGuards, SaysThatAStepWasMovedAway) {
  CompiledStep step = compile([](Tensors in) { return std::vector<Tensor>{in[0] * 2}; });
  CompiledStep other = std::move(step);
  const Tensor x = ones({2});
  EXPECT_EQ(other({&x, 1})[0].to_vector<double>(), (Floats{2, 2}));
  const auto call = [&] { step({&x, 1}); };  // NOLINT(bugprone-use-after-move): that is the test
  EXPECT_THAT(message_of<ArgumentError>(call), HasSubstr("was moved to another one"));
}

TEST(CompileGuards, RefusesAStepThatCallsItself) {
  CompiledStep* self = nullptr;
  int runs = 0;
  CompiledStep step = compile([&](Tensors in) {
    do_host_work("again", in, {}, [&](Tensors reads) {
      if (++runs == 2) (*self)(reads);
      return true;
    });
    return std::vector<Tensor>{in[0] * 2};
  });
  self = &step;
  const Tensor x = ones({2});
  step({&x, 1});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                step({&x, 1});
              }),
              HasSubstr("the step was called while it was running"));
  EXPECT_EQ(step({&x, 1})[0].to_vector<double>(), (Floats{2, 2}));
}

class Doubling : public Graph<Tensor(Tensor)> {
 public:
  std::function<bool()> during = [] { return true; };

 private:
  Tensor build(const Tensor& x) override {
    do_host_work("during", {}, {}, [this](Tensors) { return during(); });
    return x * 2;
  }
};

// The second thread calls while the first one is in the middle of a run.
TEST(CompileGuards, RefusesASecondThread) {
  Doubling graph;
  const Tensor x = ones({2});
  std::string message;
  graph.during = [&] {
    std::thread([&] { message = message_of<ArgumentError>([&] { graph(x); }); }).join();
    return true;
  };
  EXPECT_EQ(graph(x).to_vector<double>(), (Floats{2, 2}));
  EXPECT_THAT(message, HasSubstr("the step was called while it was running"));
}

// Whatever is decided for the sum, the caller gets the dtype that the region gives.
TEST(CompileGuards, ResultsHaveTheDtypesThatTheyHaveEagerly) {
  const Tensor w = randn({8, 8});
  const auto step = [&](Tensors in) {
    const amp::Autocast region(DType::kBf16);
    const Tensor y = linear(in[0], w);
    const Tensor sum = y + in[0];
    return std::vector<Tensor>{sum, y, relu(sum), relu(y), in[0]};
  };
  const Tensor x = randn({4, 8});
  const std::vector<Tensor> eager = step({&x, 1});
  EXPECT_EQ(eager[0].dtype(), DType::kF32);
  const std::vector<Tensor> captured = compile(step)({&x, 1});
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_EQ(captured[i].dtype(), eager[i].dtype()) << i;
  }
}

}  // namespace
}  // namespace mezzo::graph
