#include "mezzo/graph/compile.h"

#include <algorithm>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/custom_function.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/nn.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;

std::vector<Tensor> doubled(Tensors in) { return {in[0] * 2}; }

TEST(Compile, CapturesOncePerShape) {
  int calls = 0;
  CompiledStep step = compile([&](Tensors in) {
    ++calls;
    return doubled(in);
  });
  EXPECT_EQ(step.latest(), nullptr);
  for (const std::int64_t n : {3, 4, 3, 4, 3}) {
    const Tensor x = ones({n});
    EXPECT_EQ(step({&x, 1})[0].to_vector<double>(),
              std::vector<double>(static_cast<std::size_t>(n), 2));
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(step.programs(), 2U);
}

TEST(Compile, KeepsTheProgramsThatWereUsedLast) {
  int calls = 0;
  CompiledStep step = compile(
      [&](Tensors in) {
        ++calls;
        return doubled(in);
      },
      {.most_programs = 2});
  const auto run = [&](std::int64_t n) {
    const Tensor x = ones({n});
    step({&x, 1});
  };
  for (const std::int64_t n : {1, 2, 1, 3, 1}) run(n);  // 2 replaces 3
  EXPECT_EQ(calls, 3);
  run(2);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(step.programs(), 2U);
}

TEST(Compile, DtypesFormatsAndRegionsAreTold) {
  int calls = 0;
  CompiledStep step = compile([&](Tensors in) {
    ++calls;
    return doubled(in);
  });
  const Tensor x = ones({2, 3, 4, 4});
  const Tensor last = to_format(x, Format::kChannelsLast);
  const Tensor half = x.astype(DType::kBf16);
  for (const Tensor* input : {&x, &last, &half}) step({input, 1});
  EXPECT_EQ(calls, 3);
  {
    const amp::Autocast region(DType::kBf16);
    step({&x, 1});
  }
  EXPECT_EQ(calls, 5) << "a step with a region is captured twice: to find it, and with its casts";
  const NoGrad guard;
  step({&x, 1});
  EXPECT_EQ(calls, 6);
}

TEST(Compile, ModesAndPrecisionOfANetworkAreTold) {
  amp::SmallNet net;
  int calls = 0;
  CompiledStep step = compile(
      [&](Tensors in) {
        ++calls;
        return std::vector<Tensor>{net(in[0])};
      },
      {.networks = {&net}});
  const Tensor x = amp::small_batch(1).images;
  const auto run = [&] { return step({&x, 1})[0]; };
  run();
  run();
  EXPECT_EQ(calls, 1);
  net.eval();
  EXPECT_EQ(run().to_vector<double>(), net(x).to_vector<double>());
  EXPECT_EQ(calls, 2);
  amp::auto_mixed_precision(net, amp::Level::kO2, DType::kBf16);
  EXPECT_EQ(run().to_vector<double>(), net(x).to_vector<double>());
  EXPECT_EQ(calls, 4);
}

// Its tensors can be replaced and frozen, and a module's mode may differ from that of its children.
class Scaled : public nn::Module {
 public:
  Scaled() {
    add_parameter("weight", weight);
    add_buffer("shift", shift);
    add("drop", drop);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * weight + shift;
    return is_training() ? y * 2 : y;
  }

  Tensor weight = full({1}, 3);
  Tensor shift = full({1}, 1);
  nn::Dropout drop{0.5};
};

TEST(Compile, TensorsOfANetworkAreToldAndTheModeOfEachModule) {
  Scaled net;
  int calls = 0;
  CompiledStep step = compile(
      [&](Tensors in) {
        ++calls;
        return std::vector<Tensor>{net(in[0])};
      },
      {.networks = {&net}});
  const Tensor x = ones({1});
  const auto run = [&] { return step({&x, 1})[0].item(); };
  EXPECT_EQ(run(), 8);
  net.weight = full({1}, 4).set_requires_grad(true);
  EXPECT_EQ(run(), 10);
  net.shift = full({1}, 2);
  EXPECT_EQ(run(), 12);
  net.eval();
  net.drop.train();
  EXPECT_EQ(run(), 6);
  EXPECT_EQ(calls, 4);
  net.weight.set_requires_grad(false);
  EXPECT_EQ(run(), 6);
  EXPECT_EQ(calls, 5);
}

// Where precision is decided, there may be more casts than without, or fewer.
TEST(Compile, CastsOfOperandsShiftNoDecision) {
  const Tensor w = randn({4, 4});
  const Step step = [&](Tensors in) {
    const amp::Autocast region(DType::kBf16);
    const Tensor product = linear(in[0], w);
    const Tensor sums = exp(in[0]);
    add_into(sums, product);
    return std::vector<Tensor>{softmax(matmul(product + in[0], w)), linear(sums, w)};
  };
  const Tensor x = randn({4, 4});
  const std::vector<Tensor> got = compile(step)({&x, 1});
  const std::vector<Tensor> want = step({&x, 1});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got[i].dtype(), want[i].dtype());
    // Precision passes may round sums to bf16 in other places. Values are up to 8, with twice their
    // rounding error.
    const auto numbers = want[i].to_vector<float>();
    EXPECT_THAT(got[i].to_vector<float>(),
                testing::Pointwise(testing::FloatNear(0x1p-4F), numbers));
  }
}

TEST(Compile, RefusesCallsThatDependOnDecidedPrecision) {
  const Tensor w = randn({4, 4});
  CompiledStep step = compile([&](Tensors in) {
    const amp::Autocast region(DType::kBf16);
    const Tensor y = linear(in[0], w);
    return std::vector<Tensor>{y.dtype() == DType::kF32 ? relu(y) : tanh(y)};
  });
  const Tensor x = randn({4, 4});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                step({&x, 1});
              }),
              HasSubstr("call 1 is tanh when it is made in mixed precision"));
}

std::unique_ptr<nn::Sequential> two_layers() {
  return std::make_unique<nn::Sequential>(std::make_unique<nn::Linear>(16, 16),
                                          std::make_unique<nn::ReLU>(),
                                          std::make_unique<nn::Linear>(16, 16));
}

// Each block is differentiated within the backward pass of the whole.
TEST(Compile, BlocksThatAreComputedAgainStayInTheBackwardPass) {
  manual_seed(4);
  nn::Sequential net(std::make_unique<nn::Linear>(16, 16), two_layers(), two_layers());
  const Tensor x = randn({64, 16});
  const Step step = [&](Tensors in) {
    Tensor loss;
    {
      const amp::Autocast region({.level = amp::Level::kO2});
      loss = sum(net(in[0]), {}, false, DType::kF32);
    }
    net.zero_grad();
    loss.backward();
    return std::vector<Tensor>{};
  };
  const auto gradients = [&] {
    std::vector<std::vector<double>> all;
    for (const Tensor& parameter : net.parameters()) {
      all.push_back(parameter.grad().to_vector<double>());
    }
    return all;
  };
  step({&x, 1});
  const auto expected = gradients();
  CompiledStep kept = compile(step, {.networks = {&net}});
  kept({&x, 1});
  for (const char* path : {"1", "2"}) nn::recompute(*net.find(path));
  CompiledStep again = compile(step, {.networks = {&net}});
  again({&x, 1});
  EXPECT_EQ(gradients(), expected);
  EXPECT_LT(again.latest()->memory().arena_bytes, kept.latest()->memory().arena_bytes);

  const std::vector<Node>& nodes = again.latest()->program().nodes;
  const auto is_backward = [](const Node& node) { return node.phase == Phase::kBackward; };
  const auto first = std::ranges::find_if(nodes, is_backward);
  EXPECT_TRUE(std::all_of(first, nodes.end(), is_backward));
}

TEST(Compile, CapturesCustomFunctions) {
  // x * x, computed in f32 in both passes whatever the region says.
  const amp::CustomFunction square(
      [](amp::FunctionContext& context, std::span<const Tensor> in) {
        context.save({in[0]});
        return std::vector{in[0] * in[0]};
      },
      [](amp::FunctionContext& context, std::span<const Tensor> grads) {
        return std::vector{grads[0] * context.saved()[0] * 2.0};
      },
      {.cast_inputs = DType::kF32});
  const auto train = [&](bool captured) {
    Tensor weight = full({2, 2}, 0.5);
    weight.set_requires_grad(true);
    optim::Sgd optimizer({weight}, {.lr = 0.01, .momentum = 0.9});
    amp::GradScaler scaler({.init_scale = 1024});
    const auto body = [&](Tensors in) {
      Tensor loss;
      {
        const amp::Autocast region(DType::kF16);
        loss = mean(square({matmul(in[0], weight)})[0]);
      }
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
      optimizer.zero_grad();
      return std::vector<Tensor>{loss};
    };
    CompiledStep step = compile(body);
    std::vector<float> numbers;
    for (int i = 1; i <= 3; ++i) {
      const Tensor batch[] = {full({3, 2}, i)};
      numbers.push_back(static_cast<float>((captured ? step(batch) : body(batch))[0].item()));
    }
    for (const float w : weight.to_vector<float>()) numbers.push_back(w);
    return numbers;
  };
  EXPECT_EQ(train(true), train(false));
}

// One tensor is the gradient of two parameters, each of an optimizer of its own.
TEST(Compile, ASharedGradientIsUnscaledOnceForEachOptimizer) {
  const Tensor a = ones({2}).set_requires_grad(true);
  const Tensor b = ones({2}).set_requires_grad(true);
  optim::Sgd first({a});
  optim::Sgd second({b});
  amp::GradScaler scaler({.init_scale = 256});
  CompiledStep step = compile([&](Tensors in) {
    scaler.scale(sum((a + b) * in[0])).backward();
    scaler.unscale_(first);
    scaler.unscale_(second);
    return std::vector<Tensor>{};
  });
  const Tensor x = full({2}, 3);
  step({&x, 1});
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{3, 3}));
}

// In the program the gradient would be a constant, added to the gradients of every run.
TEST(Compile, RefusesGradientsFromBeforeTheCapture) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  const Tensor x = full({2}, 3);
  const auto gather = [&](Tensors in) {
    sum(in[0] * weight).backward();
    return std::vector<Tensor>{};
  };
  for (const bool is_held : {false, true}) {  // if held, it is not added to in place
    weight.clear_grad();
    gather({&x, 1});
    const Tensor held = is_held ? weight.grad() : Tensor();
    CompiledStep step = compile(gather);
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  step({&x, 1});
                }),
                HasSubstr("the step uses the gradient that f32[2] has from before"));
    ASSERT_TRUE(weight.grad().defined());
    EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{3, 3}));
    weight.clear_grad();
    step({&x, 1});
    EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{3, 3}));
  }
}

// The penalty is computed after a backward pass, from its results.
TEST(Compile, GradientsOfGradientsAreDecidedInRegions) {
  const auto train = [](bool captures) {
    Generator generator(3);
    const Tensor weight = (randn({8, 8}, generator) * 0.3).set_requires_grad(true);
    optim::Sgd sgd({weight}, {.lr = 0.1});
    const auto penalised = [&](Tensors in) {
      const amp::Autocast region(DType::kBf16);
      const Tensor x = in[0].detach().set_requires_grad(true);
      const Tensor score = sum(relu(matmul(x, weight)).astype(DType::kF32));
      const Tensor slope = grad({&score, 1}, {&x, 1}, {}, {.create_graph = true})[0];
      const Tensor loss = score + sum(matmul(slope, weight).astype(DType::kF32));
      loss.backward();
      sgd.step();
      sgd.zero_grad();
      return std::vector<Tensor>{loss};
    };
    CompiledStep step = compile(penalised);
    std::vector<std::vector<double>> numbers;
    for (int i = 0; i < 3; ++i) {
      const Tensor x = randn({4, 8}, generator);
      const std::vector<Tensor> out = captures ? step({&x, 1}) : penalised({&x, 1});
      numbers.push_back(out[0].to_vector<double>());
    }
    numbers.push_back(weight.to_vector<double>());
    return numbers;
  };
  EXPECT_EQ(train(true), train(false));
}

// The result has the layout of the copy.
TEST(Compile, CopiesOverWhatNobodyReads) {
  const auto step = [](Tensors in) {
    const Tensor image = to_format(in[0] * 2, Format::kChannelsLast);
    convert_into(in[0] + 1, image);
    return std::vector<Tensor>{image, image * 3};
  };
  CompiledStep compiled = compile(step);
  const Tensor x = from_values(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2});
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> eager = step({&x, 1});
    const std::vector<Tensor> captured = compiled({&x, 1});
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(captured[i].to_vector<double>(), eager[i].to_vector<double>());
      EXPECT_EQ(captured[i].strides(), eager[i].strides());
    }
  }
}

TEST(Compile, AFailedCaptureLeavesTheCacheAsItWas) {
  CompiledStep step = compile([](Tensors in) { return std::vector<Tensor>{in[0] * in[0].item()}; });
  const Tensor x = ones({1});
  EXPECT_THAT(message_of<ArgumentError>([&] { step({&x, 1}); }), HasSubstr("depends on data"));
  EXPECT_EQ(step.programs(), 0U);
}

// A user's step with PyTorch's names: scaling, clipping, an optimizer and its schedule.
struct HandWritten {
  explicit HandWritten(double init_scale)
      : optimizer(net.parameters(),
                  {.lr = std::vector<double>{0.1, 0.05, 0.02, 0.01}, .momentum = 0.9}),
        scaler({.init_scale = init_scale, .growth_interval = 2}) {}

  std::vector<Tensor> operator()(Tensors in) {
    Tensor loss;
    {
      const amp::Autocast region(DType::kBf16);
      loss = amp::steep_loss(net(in[0]).astype(DType::kF32), in[1]);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    return {loss};
  }

  amp::SmallNet net;
  optim::Sgd optimizer;
  amp::GradScaler scaler;
};

TEST(Compile, AHandWrittenStepIsTheSameBitForBit) {
  manual_seed(5);
  HandWritten eager(0x1p126);
  manual_seed(5);
  HandWritten compiled(0x1p126);
  CompiledStep step =
      compile([&](Tensors in) { return compiled(in); }, {.networks = {&compiled.net}});
  bool skipped = false;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const amp::Batch batch = amp::small_batch(i);
    const Tensor in[] = {batch.images, batch.labels};
    const double expected = eager(in)[0].item();
    EXPECT_EQ(step(in)[0].item(), expected) << i;
    EXPECT_EQ(compiled.scaler.get_scale(), eager.scaler.get_scale()) << i;
    skipped |= eager.scaler.skipped_in_a_row() > 0;
  }
  EXPECT_TRUE(skipped);
  EXPECT_EQ(step.programs(), 1U);
  EXPECT_TRUE(amp::everything(compiled.net, compiled.optimizer) ==
              amp::everything(eager.net, eager.optimizer));
}

// The scales after each of five steps, before each of which another one is set.
template <class AnyStep>
std::vector<double> scales_of(HandWritten& training, AnyStep step) {
  std::vector<double> scales;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const amp::Batch batch = amp::small_batch(i);
    const Tensor in[] = {batch.images, batch.labels};
    static_cast<void>(step(in));
    scales.push_back(training.scaler.get_scale());
    training.scaler.state().set_scale(static_cast<double>(16 << i));
  }
  return scales;
}

std::function<std::vector<Tensor>(Tensors)> ending_by(HandWritten& training, bool discards) {
  return [&training, discards](Tensors in) {
    const Tensor loss = amp::class_loss(training.net(in[0]), in[1]);
    training.scaler.scale(loss).backward();
    if (discards) {
      training.scaler.discard();
    } else {
      training.scaler.step(training.optimizer);
      training.scaler.update(512);
    }
    training.optimizer.zero_grad();
    return std::vector<Tensor>{loss};
  };
}

TEST(Compile, AScaleThatIsSetAndAnIterationThatIsDiscardedAreCaptured) {
  for (const bool discards : {false, true}) {
    manual_seed(5);
    HandWritten eager(1024);
    manual_seed(5);
    HandWritten captured(1024);
    CompiledStep step = compile(ending_by(captured, discards), {.networks = {&captured.net}});
    const auto replay = [&](Tensors in) { return step(in); };
    EXPECT_EQ(scales_of(captured, replay), scales_of(eager, ending_by(eager, discards)));
    EXPECT_EQ(captured.scaler.scale_used(), eager.scaler.scale_used());
    EXPECT_TRUE(amp::everything(captured.net, captured.optimizer) ==
                amp::everything(eager.net, eager.optimizer));
  }
}

TEST(Compile, RefusesStepsOfSeveralOptimizersTogether) {
  HandWritten training(1024);
  CompiledStep step = compile(
      [&](Tensors in) {
        const Tensor loss = amp::class_loss(training.net(in[0]), in[1]);
        training.scaler.scale(loss).backward();
        optim::Optimizer* const all[] = {&training.optimizer};
        training.scaler.step_together(all);
        return std::vector<Tensor>{loss};
      },
      {.networks = {&training.net}});
  const amp::Batch batch = amp::small_batch(1);
  const Tensor in[] = {batch.images, batch.labels};
  EXPECT_THAT(message_of<ArgumentError>([&] { step(in); }),
              HasSubstr("step_together() cannot be captured"));
}

}  // namespace
}  // namespace mezzo::graph
