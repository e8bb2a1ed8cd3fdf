// Tests gradients that are changed in place in a captured step: as in eager mode, nobody else sees
// it.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/graph.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::graph {
namespace {

using Tensors = std::span<const Tensor>;
using Floats = std::vector<double>;

// Everything that the step of a parameter of three elements can see: the input, a tensor of the
// caller's and another parameter.
struct GradientWorld {
  Tensor w = ones({3}).set_requires_grad(true);
  Tensor v = full({3}, 8).set_requires_grad(true);
  Tensor outside = from_values<float>({1, 2, 3}, {3});
  Tensor input = from_values<float>({3, 0, 4}, {3});

  void clip() const { optim::clip_grad_value({&w, 1}, 1.5); }
};

using GradientBody = std::function<std::vector<Tensor>(const GradientWorld&, const Tensor& x)>;

// Everything that remains after three runs.
std::vector<Floats> seen_by(bool captured, const GradientBody& body) {
  const GradientWorld world;
  const auto step = [&](Tensors in) { return body(world, in[0]); };
  CompiledStep compiled = compile(step);
  std::vector<Floats> seen;
  for (int i = 0; i < 3; ++i) {
    for (const Tensor& t : captured ? compiled({&world.input, 1}) : step({&world.input, 1})) {
      seen.push_back(t.to_vector<double>());
    }
    for (const Tensor& t : {world.w, world.v, world.outside, world.input}) {
      seen.push_back(t.to_vector<double>());
    }
    const Tensor leaves[] = {world.w, world.v};
    zero_grad(leaves);
  }
  return seen;
}

void expect_as_eagerly(const GradientBody& body) {
  EXPECT_EQ(seen_by(true, body), seen_by(false, body));
}

std::size_t calls_of(const Program& program, std::string_view op) {
  return static_cast<std::size_t>(std::ranges::count_if(
      program.nodes, [&](const Node& node) { return !node.is_host() && node.op->name == op; }));
}

TEST(CapturedGradients, ThatAreTheInputLeaveItAlone) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor& x) {
    (world.w + x).backward(x);
    world.clip();
    const std::vector<Tensor> later{x * 1, world.w.grad() * 1};
    zero_grad({&world.w, 1});
    return later;
  });
}

TEST(CapturedGradients, ThatExistOutsideLeaveItAlone) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor& x) {
    (world.w + x).backward(world.outside);
    world.clip();
    const std::vector<Tensor> later{world.outside * 1, world.w.grad() * 1};
    zero_grad({&world.w, 1});
    return later;
  });
}

TEST(CapturedGradients, ThatAreAParameterLeaveItAlone) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor& x) {
    (world.w + x).backward(world.v.detach());
    world.clip();
    zero_grad({&world.w, 1});
    return std::vector<Tensor>{};
  });
}

// No operation makes the tensor, so it is the same in every run.
TEST(CapturedGradients, ThatAreAConstantOfTheStepAreWholeInEveryRun) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor&) {
    world.w.set_grad(full({3}, 4));
    optim::clip_grad_value({&world.w, 1}, 2);
    const Tensor clipped = world.w.grad() * 1;
    zero_grad({&world.w, 1});
    return std::vector<Tensor>{clipped};
  });
}

TEST(CapturedGradients, ThatAreAResultOfTheStepLeaveItAlone) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor& x) {
    const Tensor y = x + world.w;
    const Tensor gradient = (y.detach() - world.outside) * 2;
    y.backward(gradient);
    world.clip();
    const Tensor loss = sum(gradient * gradient);
    zero_grad({&world.w, 1});
    return std::vector<Tensor>{loss};
  });
}

TEST(CapturedGradients, OfTwoParametersAreClippedOneByOne) {
  for (const bool both : {false, true}) {
    expect_as_eagerly([both](const GradientWorld& world, const Tensor& x) {
      sum((world.w + world.v) * x).backward();
      const Tensor leaves[] = {world.w, world.v};
      optim::clip_grad_value({leaves, both ? 2U : 1U}, 1.5);
      const std::vector<Tensor> grads{world.w.grad(), world.v.grad()};
      zero_grad(leaves);
      return grads;
    });
  }
}

// The handle refers to the gradient before clipping.
TEST(CapturedGradients, WhoeverHasOneSeesNoClipping) {
  expect_as_eagerly([](const GradientWorld& world, const Tensor& x) {
    sum(world.w * x).backward();
    const Tensor before = world.w.grad();
    const Tensor part = slice(world.w.grad(), 0, 1, 3);
    optim::clip_grad_norm({&world.w, 1}, 1);
    const Tensor clipped = world.w.grad();
    optim::clip_grad_value({&world.w, 1}, 0.7);
    const Tensor removed = before - world.w.grad();
    zero_grad({&world.w, 1});
    return std::vector<Tensor>{before, part, part * 1, clipped, removed};
  });
}

TEST(CapturedGradients, WhoeverHasOneSeesNoUnscaling) {
  const auto train = [](bool captured) {
    const Tensor w = ones({3}).set_requires_grad(true);
    optim::Sgd sgd({w}, {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 8});
    const auto step = [&](Tensors in) {
      scaler.scale(sum(w * in[0])).backward();
      const std::vector<Tensor> scaled{w.grad()};
      scaler.unscale_(sgd);
      const Tensor unscaled = w.grad() * 1;
      scaler.step(sgd);
      scaler.update();
      sgd.zero_grad();
      return std::vector<Tensor>{scaled[0], scaled[0] * 1, unscaled};
    };
    CompiledStep compiled = compile(step);
    const Tensor x = from_values<float>({1, 2, 3}, {3});
    std::vector<Floats> seen;
    for (const Tensor& t : captured ? compiled({&x, 1}) : step({&x, 1})) {
      seen.push_back(t.to_vector<double>());
    }
    seen.push_back(w.to_vector<double>());
    return seen;
  };
  EXPECT_EQ(train(true), train(false));
}

// The tensor was divided by the scale in every run.
TEST(CapturedGradients, UnscalingLeavesAGradOutputAlone) {
  const Tensor w = zeros({3}).set_requires_grad(true);
  const Tensor outside = full({3}, 1024);
  optim::Sgd sgd({w}, {.lr = 1});
  amp::GradScaler scaler({.init_scale = 4});
  CompiledStep step = compile([&](Tensors in) {
    (void)scaler.scale(sum(in[0]));
    (in[0] + w).backward(outside);
    scaler.unscale_(sgd);
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  const Tensor x = ones({3});
  for (int i = 1; i <= 3; ++i) {
    step({&x, 1});
    EXPECT_EQ(outside.to_vector<double>(), (Floats{1024, 1024, 1024}));
    EXPECT_EQ(w.to_vector<double>(), Floats(3, -256 * i));
  }
}

// Its gradient is the number 1 with which the backward pass begins.
struct WithOffset : nn::Module {
  WithOffset() {
    add("fc", fc);
    add_parameter("offset", offset);
  }
  Tensor forward(const Tensor& x) override { return fc(x); }

  nn::Linear fc{3, 2};
  Tensor offset = zeros({});
};

class OffsetGraph : public Graph<Tensor(Tensor, Tensor)> {
 public:
  OffsetGraph(WithOffset& net, optim::Optimizer& optimizer) : net_(net) {
    add_module(net);
    add_optimizer(optimizer, {.max_grad_norm = 1});
  }

 private:
  Tensor build(const Tensor& x, const Tensor& y) override {
    const Tensor loss = mse_loss(net_(x), y) + net_.offset;
    backward(loss);
    return loss;
  }
  WithOffset& net_;
};

TEST(CapturedGradients, OfANumberThatIsAddedToTheLossAreWholeInEveryRun) {
  const auto train = [](bool captured) {
    manual_seed(3);
    WithOffset net;
    optim::Sgd sgd(net.parameters(), {.lr = 0.1});
    OffsetGraph graph(net, sgd);
    const Tensor x = randn({8, 3}) * 10;
    const Tensor y = randn({8, 2});
    Floats seen;
    for (int i = 0; i < 4; ++i) {
      if (captured) {
        graph(x, y);
        seen.push_back(*graph.updates()[0].grad_norm);
      } else {
        (mse_loss(net(x), y) + net.offset).backward();
        seen.push_back(optim::clip_grad_norm(sgd.params(), 1));
        sgd.step();
        sgd.zero_grad();
      }
      seen.push_back(net.offset.item());
    }
    return seen;
  };
  EXPECT_EQ(train(true), train(false));
}

// Gradients without other owners are changed in place.
TEST(CapturedGradients, OfAnOrdinaryStepAreNotCopied) {
  nn::Linear net(3, 2);
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  amp::GradScaler scaler;
  const Tensor batch[] = {randn({4, 3}), randn({4, 2})};
  const auto step = [&](Tensors in) {
    scaler.scale(mse_loss(net(in[0]), in[1])).backward();
    scaler.unscale_(sgd);
    optim::clip_grad_norm(sgd.params(), 1);
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  };
  const auto without_clipping = [&](Tensors in) {
    scaler.scale(mse_loss(net(in[0]), in[1])).backward();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  };
  EXPECT_EQ(calls_of(capture(step, batch), "affine"),
            calls_of(capture(without_clipping, batch), "affine"));
}

}  // namespace
}  // namespace mezzo::graph
