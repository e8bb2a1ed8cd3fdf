// Modules with several inputs and results.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

// The sum and the difference of two tensors; b may be left out.
class SumAndDifference final : public Module {
 public:
  Tensors forward_all(const Tensors& inputs) override {
    check_arg(inputs.size() == 2, "SumAndDifference", "needs 2 inputs");
    const Tensor& a = inputs[0];
    const Tensor& b = inputs[1];
    return b.defined() ? Tensors{a + b, a - b} : Tensors{a, a};
  }
};

// Two linear layers and a mask; returns the masked sum of both, and the second one's result.
class TwoTowers final : public Module {
 public:
  TwoTowers() { add("left", left), add("right", right), add("dropout", dropout); }
  Tensors forward_all(const Tensors& inputs) override {
    seen.clear();
    for (const Tensor& input : inputs) seen.push_back(input.dtype());
    const Tensor r = right(inputs[1]);
    const Tensor both = dropout(left(inputs[0])) * r;
    return {masked_fill(both, inputs[2], 0), r, inputs[2]};
  }

  Linear left{4, 4};
  Linear right{4, 4};
  Dropout dropout{0.5};
  std::vector<DType> seen;
};

Tensor mask_of(const Shape& shape) { return gt(randn(shape), 0); }

TEST(SeveralInputs, BracesCallForwardAll) {
  SumAndDifference module;
  const Tensor a = full({2}, 3);
  const Tensor b = full({2}, 1);
  const Tensors both = module({a, b});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].to_vector<float>(), (Floats{4, 4}));
  EXPECT_EQ(both[1].to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(module({a, Tensor()})[1].to_vector<float>(), (Floats{3, 3}));
}

TEST(SeveralInputs, OneInputTakesEitherForm) {
  class Twice final : public Module {
   public:
    Tensors forward_all(const Tensors& inputs) override { return {inputs[0] + inputs[0]}; }
  } all;
  class Same final : public Module {
   public:
    Tensor forward(const Tensor& x) override { return x + x; }
  } one;
  const Tensor x = full({1}, 2);
  for (Module* module : {static_cast<Module*>(&all), static_cast<Module*>(&one)}) {
    EXPECT_EQ((*module)(x).item(), 4);
    EXPECT_EQ((*module)({x}).item(), 4);  // braces around one tensor are that tensor
    const Tensors results = (*module)(Tensors{x});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].item(), 4);
  }
}

TEST(SeveralInputs, ErrorsNameTheModule) {
  class Nothing final : public Module {
  } nothing;
  Sequential net;
  auto& linear = net.emplace<Linear>(1, 1);
  const Tensor x = ones({1, 1});
  EXPECT_THAT(message_of([&] { nothing(x); }), HasSubstr("the network implements neither"));
  EXPECT_THAT(message_of([&] { nothing({x, x}); }), HasSubstr("the network"));
  EXPECT_THAT(message_of([&] { nothing(Tensors{x}); }), HasSubstr("implements neither"));
  EXPECT_THAT(message_of([&] { linear({x, x}); }), HasSubstr("`0` takes one input, not 2"));
  EXPECT_THAT(message_of([&] { linear(Tensors()); }), HasSubstr("`0` takes one input, not 0"));
  SumAndDifference two;
  EXPECT_THROW(two(x), ArgumentError);
  class Both final : public Module {
   public:
    Tensors forward_all(const Tensors& inputs) override { return {inputs[0], inputs[0]}; }
  } both;
  EXPECT_THAT(message_of([&] { both(x); }), HasSubstr("has 2 results, but was asked for one"));
  // After an error the module can be called as before.
  EXPECT_EQ(both(Tensors{x}).size(), 2U);
}

TEST(SeveralInputs, SequentialPassesAllResultsOn) {
  Sequential net(std::make_unique<SumAndDifference>(), std::make_unique<SumAndDifference>());
  const Tensors results = net({full({1}, 3), full({1}, 1)});
  EXPECT_EQ(results[0].item(), 6);
  EXPECT_EQ(results[1].item(), 2);
  ModuleList list(std::make_unique<Linear>(1, 1));
  EXPECT_THAT(message_of([&] { list({ones({1, 1}), ones({1, 1})}); }), HasSubstr("a list cannot"));
}

TEST(SeveralInputs, HooksSeeAllOfThem) {
  class Swap final : public ForwardHook {
   public:
    Tensors around(Module& module, const Tensors& inputs, const Forward& forward) override {
      path = module.path();
      Tensors results = forward({inputs[1], inputs[0]});
      results[1] = affine(results[1], 10, 0);
      return results;
    }
    std::string path;
  };
  SumAndDifference module;
  const auto hook = std::make_shared<Swap>();
  module.add_forward_hook(hook);
  const Tensors results = module({full({1}, 3), full({1}, 1)});
  EXPECT_EQ(results[0].item(), 4);
  EXPECT_EQ(results[1].item(), -20);
}

TEST(SeveralInputs, AHookKeepsTheNumberOfTensors) {
  class Doubles final : public ForwardHook {
   public:
    explicit Doubles(bool results) : results_(results) {}
    Tensors around(Module&, const Tensors& inputs, const Forward& forward) override {
      if (results_) return {forward(inputs)[0], inputs[0]};
      return forward({inputs[0], inputs[0]});
    }

   private:
    bool results_;
  };
  for (const bool results : {true, false}) {
    Linear linear(1, 1);
    linear.add_forward_hook(std::make_shared<Doubles>(results));
    EXPECT_THAT(message_of([&] {
                  linear(ones({1, 1}));
                }),
                HasSubstr(results ? "makes 2 results of one" : "makes 2 inputs of one"));
  }
}

// The outermost hook of what is called from outside of modules.
TEST(SeveralInputs, AHookAroundAllModules) {
  class Count final : public ForwardHook {
   public:
    Tensors around(Module& module, const Tensors& inputs, const Forward& forward) override {
      paths.push_back(module.path());
      return forward(inputs);
    }
    std::vector<std::string> paths;
  };
  TwoTowers net;
  const auto count = std::make_shared<Count>();
  {
    const AroundModules around(count);
    net({randn({2, 4}), randn({2, 4}), mask_of({2, 4})});
    net.left(randn({2, 4}));
  }
  net.right(randn({2, 4}));
  EXPECT_THAT(count->paths, ElementsAre("", "left"));
  EXPECT_THROW(AroundModules(nullptr), ArgumentError);
}

// Modules with several named call forms.
TEST(SeveralInputs, RunEntersTheModule) {
  class Named final : public Module {
   public:
    Tensor joined(const Tensor& a, const Tensor& b) {
      return run(Tensors{a, b}, [](const Tensors& inputs) -> Tensors {
        return {inputs[0].astype(DType::kF32) + inputs[1].astype(DType::kF32)};
      })[0];
    }
  } module;
  amp::to_float(module, DType::kBf16);
  // 257 is not a bf16 number.
  EXPECT_EQ(module.joined(full({1}, 257), full({1}, 257)).item(), 512);
}

TEST(SeveralInputs, ToFloatCastsAllFloatingInputs) {
  TwoTowers net;
  amp::to_float(net, DType::kBf16);
  const Tensors results = net({randn({2, 4}), randn({2, 4}), mask_of({2, 4})});
  EXPECT_THAT(net.seen, ElementsAre(DType::kBf16, DType::kBf16, DType::kBool));
  EXPECT_EQ(results[0].dtype(), DType::kBf16);
  EXPECT_EQ(results[1].dtype(), DType::kBf16);
  EXPECT_EQ(results[2].dtype(), DType::kBool);
}

TEST(SeveralInputs, ALevelWidensAllFloatingResults) {
  TwoTowers net;
  amp::auto_mixed_precision(net, "O2", DType::kBf16);
  const Tensors results = net({randn({2, 4}), randn({2, 4}), mask_of({2, 4})});
  EXPECT_THAT(net.seen, ElementsAre(DType::kF32, DType::kF32, DType::kBool));
  EXPECT_EQ(results[0].dtype(), DType::kF32);
  EXPECT_EQ(results[1].dtype(), DType::kF32);
  EXPECT_EQ(results[2].dtype(), DType::kBool);
  // The products were computed in bf16.
  EXPECT_EQ(results[1].astype(DType::kBf16).astype(DType::kF32).to_vector<float>(),
            results[1].to_vector<float>());
}

TEST(SeveralInputs, AnInputThatWasLeftOutStaysSo) {
  SumAndDifference module;
  amp::to_float(module, DType::kF16);
  EXPECT_EQ(module({ones({1}), Tensor()})[0].dtype(), DType::kF16);
}

TEST(SeveralInputs, StatisticsCountTheGradientsOfAllResults) {
  Sequential net;
  net.emplace<SumAndDifference>();
  amp::GradientStatistics statistics(net, {.activations = true});
  statistics.begin_step(1);
  const Tensor a = ones({3}).set_requires_grad(true);
  const Tensors results = net({a, ones({3})});
  (sum(results[0]) + sum(results[1])).backward();
  ASSERT_EQ(statistics.latest_activations().size(), 1U);
  EXPECT_EQ(statistics.latest_activations()[0].passes, 2);
}

// What recompute() must not change: results and gradients.
struct Outcome {
  std::vector<Floats> results;
  std::vector<Floats> grads;
  bool operator==(const Outcome&) const = default;
};

Outcome train_once(bool again, bool one_input_thrice, const amp::Policy* policy) {
  manual_seed(3);
  TwoTowers net;
  if (again) recompute(net);
  const Tensor x = randn({3, 4}).set_requires_grad(true);
  const Tensor y = one_input_thrice ? x : randn({3, 4}).set_requires_grad(true);
  const Tensor mask = mask_of({3, 4});
  const amp::Autocast region(policy != nullptr ? *policy : amp::Policy{.level = amp::Level::kO0});
  const Tensors results = net({x, y, mask});
  EXPECT_EQ(results[2].impl(), mask.impl());
  (sum(results[0] * results[0]) + sum(results[1])).backward();
  Outcome outcome;
  for (const Tensor& result : {results[0], results[1]}) {
    outcome.results.push_back(result.astype(DType::kF32).to_vector<float>());
  }
  outcome.grads = {x.grad().to_vector<float>(), y.grad().to_vector<float>()};
  for (const Tensor& parameter : net.parameters()) {
    outcome.grads.push_back(parameter.grad().to_vector<float>());
  }
  return outcome;
}

TEST(SeveralInputs, RecomputeGivesTheSameBits) {
  const amp::Policy bf16{.level = amp::Level::kO1, .lower = DType::kBf16};
  const amp::Policy f16{.level = amp::Level::kO2, .lower = DType::kF16};
  for (const bool thrice : {false, true}) {
    for (const amp::Policy* policy : {static_cast<const amp::Policy*>(nullptr), &bf16, &f16}) {
      EXPECT_TRUE(train_once(true, thrice, policy) == train_once(false, thrice, policy)) << thrice;
    }
  }
}

TEST(SeveralInputs, RecomputeNeedsNoGradientOfEveryResult) {
  for (const bool again : {false, true}) {
    manual_seed(3);
    TwoTowers net;
    if (again) recompute(net);
    const Tensor x = randn({3, 4}).set_requires_grad(true);
    const Tensors results = net({x, randn({3, 4}), mask_of({3, 4})});
    sum(results[1]).backward();
    EXPECT_FALSE(net.left.parameters()[0].grad().defined());
    EXPECT_TRUE(net.right.parameters()[0].grad().defined());
    EXPECT_FALSE(x.grad().defined());
  }
}

// A module with an input that may be left out, and a child, which recompute() requires.
class WithOptional final : public Module {
 public:
  WithOptional() { add("linear", linear); }
  Tensors forward_all(const Tensors& inputs) override {
    const Tensor y = linear(inputs[0]);
    return {inputs[1].defined() ? y + inputs[1] : y, Tensor()};
  }
  Linear linear{2, 2};
};

TEST(SeveralInputs, RecomputeTakesInputsThatWereLeftOut) {
  WithOptional net;
  recompute(net);
  const Tensors results = net({ones({1, 2}), Tensor()});
  EXPECT_FALSE(results[1].defined());
  sum(results[0]).backward();
  EXPECT_TRUE(net.linear.parameters()[0].grad().defined());
}

TEST(SeveralInputs, RecomputeRefusesMoreResultsThanATapeHolds) {
  class Many final : public Module {
   public:
    Many() { add("linear", linear); }
    Tensors forward_all(const Tensors& inputs) override { return Tensors(5, linear(inputs[0])); }
    Linear linear{2, 2};
  } net;
  recompute(net);
  EXPECT_THAT(message_of([&] {
                net(Tensors{ones({1, 2})});
              }),
              HasSubstr("returns 5 floating-point tensors. A recomputed module may return 4"));
}

}  // namespace
}  // namespace mezzo::nn
