#include "mezzo/nn/module.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/log.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using Floats = std::vector<float>;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor input() { return from_values({1.0F, 2.0F}, {2}); }

TEST(Module, NamesAreDottedAndInOrderOfRegistration) {
  ExampleNet net;
  EXPECT_THAT(names_of(net.named_parameters()),
              ElementsAre("stem.weight", "body.shift", "body.first.weight", "body.second.weight"));
  EXPECT_THAT(names_of(net.named_buffers()),
              ElementsAre("stem.calls", "body.first.calls", "body.second.calls"));
  EXPECT_THAT(names_of(net.named_modules()),
              ElementsAre("", "stem", "body", "body.first", "body.second"));
  EXPECT_EQ(net.parameters().size(), 4U);
  EXPECT_EQ(net.parameter_count(), 8);
  EXPECT_EQ(net.body.first.path(), "body.first");
  EXPECT_EQ(net.path(), "");
}

// Calls a module that it did not add.
class Forgetful final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return forgotten(x); }
  Linear forgotten{2, 3};
};

TEST(Module, WarnsOfModulesThatWereNotAdded) {
  std::vector<std::string> lines;
  logging::set_sink([&](logging::Topic, std::string_view line) { lines.emplace_back(line); });
  Forgetful net;
  {
    const NoGrad guard;
    net(ones({1, 2}));
  }
  for (Tensor parameter : net.forgotten.parameters()) parameter.set_requires_grad(false);
  net(ones({1, 2}));  // frozen, and perhaps shared with somebody else
  EXPECT_THAT(lines, testing::IsEmpty());
  for (Tensor parameter : net.forgotten.parameters()) parameter.set_requires_grad(true);
  net(ones({1, 2}));
  net.forgotten(ones({1, 2}));
  logging::set_sink({});
  EXPECT_THAT(lines, ElementsAre("[Module] the network calls a module with 2 parameters that was "
                                 "not added: they are not among parameters(), and not in state(). "
                                 "Call add() in the constructor"));
}

TEST(Module, ForwardComputesAndGradientsReachEveryParameter) {
  ExampleNet net;
  const Tensor y = net(input());
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 13}));
  sum(y).backward();
  for (const NamedTensor& parameter : net.named_parameters()) {
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  }
  net.zero_grad();
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Module, RegistryAndMemberAreTheSameTensor) {
  Scale scale(5);
  fill(scale.named_parameters()[0].tensor, 7);
  EXPECT_EQ(scale(input()).to_vector<float>(), (Floats{7, 14}));
  *scale.own_parameters()[0].tensor = full({2}, 9);  // as a cast of the parameters does
  EXPECT_EQ(scale(input()).to_vector<float>(), (Floats{9, 18}));
}

TEST(Module, SharedTensorsAreListedOnceButSavedTwice) {
  class Tied : public Module {
   public:
    Tied() {
      add_parameter("a", a_);
      add_parameter("b", b_);
    }
    Tensor forward(const Tensor& x) override { return x; }

   private:
    Tensor a_ = ones({2});
    Tensor b_ = a_;
  };
  const Tied tied;
  EXPECT_THAT(names_of(tied.named_parameters()), ElementsAre("a"));
  EXPECT_EQ(tied.parameter_count(), 2);
  EXPECT_THAT(names_of(tied.state()), ElementsAre("a", "b"));
}

TEST(Module, TrainAndEvalReachEveryModule) {
  ExampleNet net;
  EXPECT_TRUE(net.body.second.is_training());
  net.eval();
  for (const auto& [name, module] : net.named_modules()) EXPECT_FALSE(module->is_training());
  net.body.train();
  EXPECT_TRUE(net.body.first.is_training());
  EXPECT_FALSE(net.is_training());
}

// Frozen layers, and a trained one in a network that is not trained.
TEST(Inference, GivesEveryModuleItsOwnModeBack) {
  ExampleNet net;
  net.body.eval();
  net.body.second.train();
  const auto modes = [&] {
    std::vector<bool> result;
    for (const auto& [name, module] : net.named_modules()) result.push_back(module->is_training());
    return result;
  };
  for (const bool is_training : {true, false}) {
    if (!is_training) {
      net.eval();
      net.body.first.train();
    }
    const std::vector<bool> before = modes();
    {
      const Inference outer(net);
      const Inference inner(net);
      EXPECT_THAT(modes(), testing::Each(false));
    }
    EXPECT_EQ(modes(), before);
  }
}

TEST(Module, ApplyVisitsChildrenBeforeParents) {
  ExampleNet net;
  std::vector<std::string> order;
  net.apply([&](Module& module) { order.push_back(module.path()); });
  EXPECT_THAT(order, ElementsAre("stem", "body.first", "body.second", "body", ""));
}

TEST(Module, PathIsKnownDuringForwardOnly) {
  ExampleNet net;
  EXPECT_EQ(current_module(), nullptr);
  net(input());
  EXPECT_EQ(net.stem.path_seen, "stem");
  EXPECT_EQ(net.body.second.path_seen, "body.second");
  EXPECT_EQ(current_module(), nullptr);
  EXPECT_EQ(current_module_path(), "");
}

TEST(Module, PathIsLeftWhenForwardThrows) {
  ExampleNet net;
  EXPECT_THROW(net(ones({3})), ArgumentError);
  EXPECT_EQ(net.stem.path_seen, "stem");
  EXPECT_EQ(current_module(), nullptr);
}

TEST(Module, PathIsPerThread) {
  ExampleNet net;
  class Outer : public Module {
   public:
    Tensor forward(const Tensor& x) override {
      std::thread([this] { other = current_module(); }).join();
      EXPECT_EQ(current_module(), this);
      return x;
    }
    Module* other = this;
  } outer;
  outer(input());
  EXPECT_EQ(outer.other, nullptr);
}

TEST(Module, RegistrationRefusesWhatCannotBeNamed) {
  class Open : public Module {
   public:
    using Module::add;
    using Module::add_buffer;
    using Module::add_parameter;
    Tensor forward(const Tensor& x) override { return x; }
  } net;
  Scale child;
  Tensor tensor = ones({1});
  Tensor undefined;
  Tensor integers = zeros({1}, DType::kI64);
  net.add("child", child);
  EXPECT_THAT(message_of([&] { net.add_buffer("child", tensor); }), HasSubstr("already"));
  EXPECT_THAT(message_of([&] { net.add_buffer("", tensor); }), HasSubstr("empty"));
  EXPECT_THAT(message_of([&] { net.add_buffer("a.b", tensor); }), HasSubstr("dot"));
  EXPECT_THAT(message_of([&] { net.add_parameter("w", undefined); }), HasSubstr("undefined"));
  EXPECT_THROW(net.add_parameter("i", integers), ArgumentError);
  EXPECT_THAT(message_of([&] { net.add("again", child); }), HasSubstr("child of another"));
  EXPECT_THAT(message_of([&] { net.add("self", net); }), HasSubstr("contain itself"));
  EXPECT_THAT(names_of(net.state()), ElementsAre("child.weight", "child.calls"));
}

// Doubles the input and counts its calls.
class DoublingHook : public ForwardHook {
 public:
  Tensors around(Module& module, const Tensors& inputs, const Forward& forward) override {
    seen.push_back(module.path());
    return forward({inputs[0] + inputs[0]});
  }
  std::vector<std::string> seen;
};

TEST(Module, HookSurroundsTheForwardPass) {
  ExampleNet net;
  const auto hook = std::make_shared<DoublingHook>();
  net.body.first.add_forward_hook(hook);
  EXPECT_EQ(net(input()).to_vector<float>(), (Floats{13, 25}));
  EXPECT_THAT(hook->seen, ElementsAre("body.first"));
  EXPECT_EQ(net.body.first.path_seen, "body.first");
  net.body.first.remove_forward_hook(hook.get());
  EXPECT_EQ(net(input()).to_vector<float>(), (Floats{7, 13}));
}

TEST(Module, AHookMayTakeItselfAway) {
  class Once final : public ForwardHook {
   public:
    Tensors around(Module& module, const Tensors& inputs, const Forward& forward) override {
      module.remove_forward_hook(this);
      return forward({inputs[0] + inputs[0]});
    }
  };
  Scale scale(5);
  scale.add_forward_hook(std::make_shared<Once>());
  const auto stays = std::make_shared<DoublingHook>();
  scale.add_forward_hook(stays);
  const Tensor first = scale(input());
  EXPECT_EQ(stays->seen.size(), 1U);
  const Tensor second = scale(input());
  EXPECT_EQ(stays->seen.size(), 2U);
  EXPECT_EQ(first.to_vector<float>(), (second + second).to_vector<float>());
}

TEST(Module, APatternMatchesModulesBelowAlone) {
  ExampleNet net;
  const std::vector<Module*> all = net.matching("*");
  EXPECT_EQ(all.size(), net.named_modules().size() - 1);
  EXPECT_THAT(all, testing::Not(testing::Contains(&net)));
}

TEST(Module, HooksNestAndMustExist) {
  Scale scale(5);
  std::vector<int> order;
  class Noting final : public ForwardHook {
   public:
    Noting(std::vector<int>& order, int number) : order_(order), number_(number) {}
    Tensors around(Module& /*module*/, const Tensors& inputs, const Forward& forward) override {
      order_.push_back(number_);
      return forward(inputs);
    }

   private:
    std::vector<int>& order_;
    int number_;
  };
  scale.add_forward_hook(std::make_shared<Noting>(order, 2));
  scale.add_forward_hook(std::make_shared<Noting>(order, 3));
  scale.add_outermost_forward_hook(std::make_shared<Noting>(order, 1));
  scale(input());
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_THROW(scale.add_forward_hook(nullptr), ArgumentError);
  EXPECT_THROW(scale.add_outermost_forward_hook(nullptr), ArgumentError);
}

}  // namespace
}  // namespace mezzo::nn
