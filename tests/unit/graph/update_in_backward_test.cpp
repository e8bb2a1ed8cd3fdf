// Tests where early updates are placed, and what they must not move past.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;

Tensor leaf(std::int64_t rows, std::int64_t columns) {
  return zeros({rows, columns}).set_requires_grad(true);
}

// Two layers: the gradient of the second is complete before that of the first is begun.
struct Layers {
  explicit Layers(std::int64_t outputs = 256, double momentum = 0)
      : second(leaf(512, outputs)), sgd({first, second}, {.lr = 0.1, .momentum = momentum}) {}

  Tensor first = leaf(128, 512);
  Tensor second;
  optim::Sgd sgd;

  Tensor loss(const Tensor& x) const { return sum(matmul(relu(matmul(x, first)), second)); }
};

using Body = std::function<std::vector<Tensor>(const Tensor& x)>;

Program captured(const Layers& layers, const Body& body) {
  const Tensor x = zeros({4, 128});
  const auto step = [&](std::span<const Tensor> in) { return body(in[0]); };
  return capture(step, {&x, 1}, {.names = {{"first", layers.first}, {"second", layers.second}}});
}

// The program's text after the pass, which must then find nothing more to do.
std::string text_behind(Program program, std::size_t parts) {
  verify(program);
  EXPECT_EQ(update_in_backward(program), parts);
  EXPECT_NO_THROW(verify(program));
  const std::string text = to_text(program);
  EXPECT_EQ(update_in_backward(program), 0U);
  EXPECT_EQ(to_text(program), text);
  EXPECT_EQ(to_text(parse_program(text)), text);
  return text;
}

void expect_whole(const Layers& layers, const Body& body) {
  const Program program = captured(layers, body);
  const std::string before = to_text(program);
  EXPECT_EQ(text_behind(program, 0), before);
}

constexpr const char* kForward = R"(program(input0: f32[4, 128]) {
  state first: f32[128, 512]
  state second: f32[512, 256]
  state const0: f32[]
  %0: f32[4, 512] = matmul(input0, first) {transpose_a=false transpose_b=false f32_result=false}
  %1: f32[4, 512] = relu(%0)
  %2: f32[4, 256] = matmul(%1, second) {transpose_a=false transpose_b=false f32_result=false}
  %3: f32[] = sum(%2) {axes=[0, 1] keepdim=false f32_result=false}
  %4: f32[1, 1] = reshape(const0) {shape=[1, 1]} #backward
  %5: f32[4, 256] strides=[0, 0] = expand(%4) {shape=[4, 256]} #backward
  %6: f32[4, 512] = matmul(%5, second) {transpose_a=false transpose_b=true f32_result=false} #backward
  %7: f32[512, 256] = matmul(%1, %5) {transpose_a=true transpose_b=false f32_result=false} #backward
)";

TEST(EarlyUpdates, FollowTheGradients) {
  Layers layers;
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  EXPECT_EQ(to_text(program), concat(kForward, R"(  %8: f32[4, 512] = relu_grad(%6, %1) #backward
  %9: f32[128, 512] = matmul(input0, %8) {transpose_a=true transpose_b=false f32_result=false} #backward
  host Sgd(%9, %7) #update
  return
}
)"));
  EXPECT_EQ(text_behind(program, 1), concat(kForward, R"(  host Sgd.some(%7) #update
  %8: f32[4, 512] = relu_grad(%6, %1) #backward
  %9: f32[128, 512] = matmul(input0, %8) {transpose_a=true transpose_b=false f32_result=false} #backward
  host Sgd(%9) #update
  return
}
)"));
}

// Both gradients exist before a weight is read for the last time, through a view.
TEST(EarlyUpdates, WaitForTheLastThatReadsTheParameter) {
  Layers layers;
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    const NoGrad guard;
    const Tensor flat = reshape(layers.second, {512 * 256});
    const Tensor result = sum(affine(affine(flat, 2, 0), 3, 0));
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{result};
  });
  EXPECT_EQ(text_behind(program, 2),
            concat(kForward, R"(  %8: f32[4, 512] = relu_grad(%6, %1) #backward
  %9: f32[128, 512] = matmul(input0, %8) {transpose_a=true transpose_b=false f32_result=false} #backward
  host Sgd.some(%9) #update
  %10: f32[131072] = reshape(second) {shape=[131072]}
  %11: f32[131072] = affine(%10) {scale=2 shift=0}
  host Sgd.some(%7) #update
  %12: f32[131072] = affine(%11) {scale=3 shift=0}
  %13: f32[] = sum(%12) {axes=[0] keepdim=false f32_result=false}
  host Sgd() #update
  return %13
}
)"));
}

// Expects that, after the pass, the second layer's update follows the call that reads the result of
// `last`, between the backward pass and the update.
void expect_behind_reader(Layers& layers, const std::function<Tensor()>& last) {
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    const NoGrad guard;
    const Tensor result = affine(sum(affine(last(), 2, 0)), 3, 0);
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{result};
  });
  const std::string text = text_behind(program, 2);
  const std::size_t reader = text.find("{scale=2 shift=0}");
  ASSERT_NE(reader, std::string::npos);
  EXPECT_NE(text.find("host Sgd.some(%7)", reader), std::string::npos) << text;
}

// The reader uses another name, or the 16-bit copy, which the update renews.
TEST(EarlyUpdates, WaitForTheLastThatReadsTheParametersMemory) {
  Layers layers;
  const Tensor flat = reshape(layers.second.detach(), {512 * 256});
  expect_behind_reader(layers, [&] { return flat; });
  expect_behind_reader(layers, [&] { return layers.second.astype(DType::kBf16); });
}

TEST(EarlyUpdates, WaitForTheLastThatReadsTheOptimizersState) {
  Layers layers(256, /*momentum=*/0.9);
  layers.loss(zeros({4, 128})).backward();
  layers.sgd.step();
  layers.sgd.zero_grad();
  const Tensor momentum = layers.sgd.state().at(0).tensor;
  expect_behind_reader(layers, [&] { return momentum; });
}

// For example, a gradient may be read between the backward pass and the update.
TEST(EarlyUpdates, WaitForTheLastThatReadsTheGradient) {
  Layers layers;
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    const NoGrad guard;
    const Tensor result = affine(sum(layers.second.grad()), 2, 0);
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{result};
  });
  const std::string text = text_behind(program, 2);
  EXPECT_THAT(text, HasSubstr("host Sgd.some(%9) #update\n  %10: f32[] = sum(%7)"));
  EXPECT_THAT(text, HasSubstr("host Sgd.some(%7) #update\n  %11: f32[] = affine(%10)"));
}

TEST(EarlyUpdates, NotOfGradientsThatAreLeft) {
  Layers layers;
  expect_whole(layers, [&](const Tensor& x) {
    layers.sgd.zero_grad();
    layers.loss(x).backward();
    layers.sgd.step();
    return std::vector<Tensor>{};
  });
  expect_whole(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    const Tensor gradient = layers.second.grad();
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{gradient};
  });
}

TEST(EarlyUpdates, NotPastHostWork) {
  Layers layers;
  const auto step_behind = [&](const std::function<void()>& work) {
    expect_whole(layers, [&](const Tensor& x) {
      layers.loss(x).backward();
      work();
      layers.sgd.step();
      layers.sgd.zero_grad();
      return std::vector<Tensor>{};
    });
  };
  const auto nothing = [](std::span<const Tensor>) { return true; };
  step_behind([&] { do_host_work("look", {}, {}, nothing); });
  step_behind([&] { do_host_work("ahead", {}, {}, nothing, HostWorkTime::kCanGoAhead); });
  step_behind([&] { optim::clip_grad_norm(layers.sgd.params(), 1); });
  step_behind([&] { optim::clip_grad_value(layers.sgd.params(), 1); });
}

TEST(EarlyUpdates, PastHostWorkThatCanWait) {
  Layers layers;
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    const auto nothing = [](std::span<const Tensor>) { return true; };
    do_host_work("mark", {}, {}, nothing, HostWorkTime::kCanWait);
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  EXPECT_THAT(text_behind(program, 1), HasSubstr("host mark()\n  host Sgd(%9)"));
}

// Such steps are skipped, or may be.
TEST(EarlyUpdates, NotIfGradientsAreCheckedFirst) {
  Layers layers;
  for (const bool is_enabled : {true, false}) {
    amp::GradScaler scaler({}, is_enabled);
    const Program program = captured(layers, [&](const Tensor& x) {
      scaler.scale(layers.loss(x)).backward();
      scaler.step(layers.sgd);
      scaler.update();
      layers.sgd.zero_grad();
      return std::vector<Tensor>{};
    });
    text_behind(program, is_enabled ? 0 : 1);
  }
}

// A single parallel loop over all of them is faster.
TEST(EarlyUpdates, NotOfSmallGradients) {
  Layers layers(16);
  expect_whole(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{};
  });
}

// Parameters that were added have one gradient; parameters may share one block of memory.
TEST(EarlyUpdates, NotOfWhatIsShared) {
  Layers layers;
  const Tensor third = leaf(512, 256);
  const Tensor block = zeros({2, 512, 256});
  const Tensor half = reshape(slice(block, 0, 0, 1), {512, 256}).detach().set_requires_grad(true);
  const Tensor other = reshape(slice(block, 0, 1, 2), {512, 256}).detach().set_requires_grad(true);
  for (const auto& [a, b] : {std::pair(layers.second, third), std::pair(half, other)}) {
    optim::Sgd sgd({layers.first, a, b}, {.lr = 0.1});
    const bool is_sum = b.impl() == third.impl();
    expect_whole(layers, [&, a = a, b = b](const Tensor& x) {
      const Tensor hidden = relu(matmul(x, layers.first));
      const Tensor y = is_sum ? matmul(hidden, a + b) : matmul(hidden, a) * matmul(hidden, b);
      sum(y).backward();
      sgd.step();
      sgd.zero_grad();
      return std::vector<Tensor>{};
    });
  }
}

// The update draws random numbers in the order of the parameters.
TEST(EarlyUpdates, NotWithStochasticRounding) {
  Layers layers;
  const Tensor half = zeros({512, 256}, DType::kBf16).set_requires_grad(true);
  optim::Sgd sgd({half, layers.first},
                 {.lr = 0.1, .param_update = optim::ParamUpdate::kStochastic});
  expect_whole(layers, [&](const Tensor& x) {
    sum(matmul(relu(matmul(x, layers.first)), half.astype(DType::kF32))).backward();
    sgd.step();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  });
}

// The second optimizer's update reads what the first has left.
TEST(EarlyUpdates, OfTwoOptimizersTheFirst) {
  Layers layers;
  optim::Sgd other({layers.second}, {.lr = 0.1});
  const Program program = captured(layers, [&](const Tensor& x) {
    layers.loss(x).backward();
    layers.sgd.step();
    layers.sgd.zero_grad();
    layers.loss(x).backward();
    other.step();
    other.zero_grad();
    return std::vector<Tensor>{};
  });
  const std::string text = text_behind(program, 2);
  EXPECT_EQ(text.find("Sgd.some"), text.find("host ") + 5);
  EXPECT_LT(text.find("host Sgd("), text.rfind("host Sgd.some("));
}

// A gradient occupies the arena only until its update.
TEST(EarlyUpdates, MakeTheArenaSmaller) {
  constexpr std::int64_t kWidth = 256;
  constexpr std::size_t kLayers = 6;
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < kLayers; ++i) weights.push_back(leaf(kWidth, kWidth));
  optim::Sgd sgd(weights, {.lr = 0.1});
  const Tensor x = zeros({4, kWidth});
  Program program = capture(
      [&](std::span<const Tensor> in) {
        Tensor y = in[0];
        for (const Tensor& weight : weights) y = relu(matmul(y, weight));
        sum(y).backward();
        sgd.step();
        sgd.zero_grad();
        return std::vector<Tensor>{};
      },
      {&x, 1});
  const std::size_t before = plan_memory(program).arena_bytes;
  EXPECT_EQ(update_in_backward(program), kLayers - 1);
  const std::size_t gradient = kWidth * kWidth * sizeof(float);
  EXPECT_LE(plan_memory(program).arena_bytes, before - (kLayers - 2) * gradient);
}

// So norms in between need no memory, as before.
TEST(EarlyUpdates, AreKnownToChangeTheirLeavesAlone) {
  Layers layers;
  const Tensor flat = reshape(layers.second.detach(), {512 * 256});  // shares the memory
  Program program = captured(layers, [&](const Tensor& x) {
    (layers.loss(x) + sum(flat)).backward();
    layers.sgd.step();
    layers.sgd.zero_grad();
    return std::vector<Tensor>{};
  });
  ASSERT_EQ(update_in_backward(program), 1U);
  const auto part = std::ranges::find_if(program.nodes, &Node::is_part) - program.nodes.begin();
  const auto at = static_cast<std::size_t>(part);
  const MemoryUse memory(program);
  int states = 0;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Tensor& state = program.values[v].tensor;
    if (!state.defined()) continue;
    const bool is_changed = state.storage() == layers.second.storage();
    EXPECT_EQ(memory.is_same_at(v, at, at + 1), !is_changed) << program.values[v].name;
    states += static_cast<int>(is_changed);
  }
  EXPECT_EQ(states, 2);
}

}  // namespace
}  // namespace mezzo::graph
