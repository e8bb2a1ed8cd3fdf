#include "mezzo/nn/recompute.h"

#include <algorithm>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using testing::HasSubstr;

// A residual block with everything that could differ the second time.
class Block final : public Module {
 public:
  explicit Block(std::int64_t channels)
      : conv1_(channels, channels, 3, {.padding = 1}),
        norm_(channels),
        dropout_(0.25),
        conv2_(channels, channels, 3, {.padding = 1}) {
    add("conv1", conv1_);
    add("norm", norm_);
    add("dropout", dropout_);
    add("conv2", conv2_);
  }
  Tensor forward(const Tensor& x) override {
    return mezzo::add(conv2_(dropout_(norm_.forward_relu(conv1_(x)))), x);
  }

 private:
  Conv2d conv1_;
  BatchNorm2d norm_;
  Dropout dropout_;
  Conv2d conv2_;
};

class Net final : public Module {
 public:
  Net() : stem_(3, 8, 3, {.padding = 1}), first_(8), second_(8) {
    add("stem", stem_);
    add("first", first_);
    add("second", second_);
  }
  Tensor forward(const Tensor& x) override { return second_(first_(stem_(x))); }

 private:
  Conv2d stem_;
  Block first_;
  Block second_;
};

// Everything that a training step changes.
struct Trace {
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<double>> buffers;
  std::uint64_t random_offset = 0;
  std::int64_t held_bytes = 0;  // from the forward to the backward pass

  bool operator==(const Trace& other) const {
    return gradients == other.gradients && buffers == other.buffers &&
           random_offset == other.random_offset;
  }
};

Trace step(DType lower, const std::vector<std::string>& recomputed) {
  manual_seed(3);
  Net net;
  for (const std::string& path : recomputed) {
    recompute(path.empty() ? net : *net.find(path));
  }
  const Tensor x = randn({4, 3, 9, 9}).set_requires_grad(true);
  Trace trace;
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  Tensor loss;
  {
    const bool mixed = is_lower(lower);
    const amp::Autocast region({.level = mixed ? amp::Level::kO2 : amp::Level::kO0,
                                .lower = mixed ? lower : DType::kBf16});
    loss = sum(net(x), {}, false, DType::kF32);
  }
  trace.held_bytes = cpu_allocator().stats().live_bytes - before;
  loss.backward();
  for (const Tensor& parameter : net.parameters()) {
    trace.gradients.push_back(parameter.grad().to_vector<float>());
  }
  trace.gradients.push_back(x.grad().to_vector<float>());
  for (const NamedTensor& buffer : net.named_buffers()) {
    trace.buffers.push_back(buffer.tensor.to_vector<double>());
  }
  trace.random_offset = default_generator().position().offset;
  return trace;
}

TEST(Recompute, GivesTheSameBitsInLessMemory) {
  for (const DType lower : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Trace kept = step(lower, {});
    const Trace again = step(lower, {"first", "second"});
    EXPECT_TRUE(again == kept) << name_of(lower);
    EXPECT_LT(again.held_bytes, kept.held_bytes * 2 / 3) << name_of(lower);
  }
}

// The backward pass comes after the scope.
TEST(Recompute, KeepsTheDirectSumsOfTheFirstRun) {
  class NoWinograd final : public KernelListener {
   public:
    void on_run(const KernelWork& work, double) override {
      EXPECT_NE(std::string_view(work.kernel), "cpu_winograd") << work.op;
    }

   private:
    ListenToKernels guard_{*this};
  };
  const NoWinograd listening;
  for (const bool recomputed : {false, true}) {
    manual_seed(3);
    Block block(32);
    if (recomputed) recompute(block);
    Tensor loss;
    {
      const ExactSums exact;
      loss = sum(block(randn({4, 32, 9, 9})));
    }
    loss.backward();
  }
}

TEST(Recompute, Nests) {
  const Trace kept = step(DType::kBf16, {});
  EXPECT_TRUE(step(DType::kBf16, {"", "first"}) == kept);
}

// Its forward() differs from its forward_all(), which it inherits.
template <class Base>
class WithSkip final : public Base {
 public:
  WithSkip() { this->template emplace<Linear>(4, 4); }
  Tensor forward(const Tensor& x) override { return (*this)[0](x) * x; }
};

template <class Net>
std::vector<float> gradient_of_first(bool recomputed, bool in_list) {
  manual_seed(5);
  Net net;
  if (recomputed) recompute(net);
  const Tensor x = randn({3, 4});
  sum(in_list ? net(Tensors{x})[0] : net(x)).backward();
  return net.parameters()[0].grad().template to_vector<float>();
}

TEST(Recompute, CallsTheModuleAsItWasCalled) {
  for (const bool in_list : {false, true}) {
    EXPECT_EQ(gradient_of_first<WithSkip<Sequential>>(true, in_list),
              gradient_of_first<WithSkip<Sequential>>(false, in_list));
    EXPECT_EQ(gradient_of_first<WithSkip<ModuleList>>(true, in_list),
              gradient_of_first<WithSkip<ModuleList>>(false, in_list));
  }
  EXPECT_NE(gradient_of_first<WithSkip<Sequential>>(true, false),
            gradient_of_first<WithSkip<Sequential>>(true, true));
}

// A weight and an input that are used many times, in 16 bits.
class ManyUses final : public Module {
 public:
  explicit ManyUses(DType dtype) {
    add("inner", inner_);
    weight_ = weight_.astype(dtype);
    add_parameter("weight", weight_);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = y * weight_ * 0.71 + x * 0.3;
    return y;
  }

 private:
  Flatten inner_;
  Tensor weight_ = randn({6});
};

// Leaf gradients are added up in f32, others in their own dtype, whether recomputed or not.
TEST(Recompute, AddsGradientsUpWhereTheyWouldBe) {
  const auto gradients = [](DType dtype, bool again, bool leads_to_leaf) {
    manual_seed(6);
    ManyUses module(dtype);
    if (again) recompute(module);
    const Tensor x = randn({6}).astype(dtype).set_requires_grad(true);
    sum(module(leads_to_leaf ? x : x * 1.1)).backward();
    const Tensor& weight = *module.own_parameters()[0].tensor;
    EXPECT_EQ(weight.grad().dtype(), DType::kF32);
    EXPECT_EQ(x.grad().dtype(), leads_to_leaf ? DType::kF32 : dtype);
    return std::pair(weight.grad().to_vector<float>(), x.grad().to_vector<float>());
  };
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const bool leads_to_leaf : {false, true}) {
      EXPECT_EQ(gradients(dtype, true, leads_to_leaf), gradients(dtype, false, leads_to_leaf));
    }
  }
}

TEST(Recompute, AppliesThePolicyOfTheModuleItself) {
  const auto gradient = [](bool again) {
    manual_seed(5);
    Block block(4);
    amp::set_policy(block, {.level = amp::Level::kO2, .lower = DType::kBf16});
    if (again) recompute(block);
    const Tensor x = randn({2, 4, 5, 5}).set_requires_grad(true);
    sum(block(x)).backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// The recomputation has its own region, which ends within the backward pass.
TEST(Recompute, GivesTheSameBitsInABackwardPassWithinARegion) {
  const auto gradients = [](bool again) {
    manual_seed(3);
    Net net;
    amp::to_float(*net.find("stem"), DType::kF32);
    if (again) recompute(*net.find("second"));
    const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
    sum(net(randn({4, 3, 9, 9})), {}, false, DType::kF32).backward();
    std::vector<std::vector<float>> all;
    for (const Tensor& parameter : net.parameters()) {
      all.push_back(parameter.grad().to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Recompute, WorksForGrad) {
  manual_seed(1);
  Block block(4);
  recompute(block);
  const Tensor x = randn({2, 4, 5, 5}).set_requires_grad(true);
  const Tensor y = sum(block(x));
  const std::vector<Tensor> grads = grad({&y, 1}, {&x, 1}, {});
  EXPECT_TRUE(grads[0].defined());
  EXPECT_FALSE(block.parameters()[0].grad().defined());
}

TEST(Recompute, RefusesASecondBackwardPass) {
  Sequential net(std::make_unique<Linear>(4, 4));
  recompute(net);
  const Tensor y = sum(net(ones({2, 4}).set_requires_grad(true)));
  y.backward();
  EXPECT_THAT(message_of<ArgumentError>([&] { y.backward(); }),
              testing::HasSubstr("already called through this graph"));
}

TEST(Recompute, IsUndone) {
  Block block(4);
  recompute(block);
  EXPECT_TRUE(is_recomputed(block));
  stop_recompute(block);
  EXPECT_FALSE(is_recomputed(block));
  EXPECT_TRUE(block.forward_hooks().empty());
}

TEST(Recompute, LeavesInferenceAlone) {
  manual_seed(1);
  Block block(4);
  recompute(block);
  const Inference inference(block);
  const Tensor y = block(randn({2, 4, 5, 5}));
  EXPECT_FALSE(y.requires_grad());
}

TEST(Recompute, RefusesWhatWouldGiveOtherNumbers) {
  Block block(4);
  recompute(block);
  const Tensor x = randn({2, 4, 5, 5}).set_requires_grad(true);
  Tensor loss = sum(block(x));
  block.parameters()[0].bump_version();
  EXPECT_THAT(message_of([&] { loss.backward(); }),
              HasSubstr("was changed since the forward pass"));
  loss = sum(block(x));
  block.eval();
  EXPECT_THAT(message_of([&] { loss.backward(); }),
              HasSubstr("switched between training and inference"));
  block.train();
  loss = sum(block(x));
  EXPECT_THAT(message_of([&] {
                backward({&loss, 1}, {}, {.create_graph = true});
              }),
              HasSubstr("cannot be differentiated twice"));
  EXPECT_THAT(message_of([&] { recompute(block); }), HasSubstr("is recomputed already"));
  Conv2d leaf(1, 1, 1);
  EXPECT_THAT(message_of([&] { recompute(leaf); }),
              HasSubstr("[recompute] the network itself has no children"));
}

// Doubles the input and the result.
class DoublesBothEnds final : public ForwardHook {
 public:
  Tensors around(Module& /*module*/, const Tensors& inputs, const Forward& forward) override {
    return {affine(forward({affine(inputs[0], 2, 0)})[0], 2, 0)};
  }
};

TEST(Recompute, RepeatsHooksThatWereThereBefore) {
  const auto gradient = [](bool again) {
    Sequential net(std::make_unique<Linear>(4, 4));
    for (const Tensor& parameter : net.parameters()) fill(parameter, 0.5);
    net.add_forward_hook(std::make_shared<DoublesBothEnds>());
    if (again) recompute(net);
    const Tensor x = ones({2, 4}).set_requires_grad(true);
    const Tensor y = sum(net(x));
    y.backward();
    EXPECT_EQ(y.item(), 2 * 2 * 4 * (0.5 * 4 * 2 + 0.5));
    return std::pair(x.grad().to_vector<float>(), net.parameters()[0].grad().to_vector<float>());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// The 16-bit result of a matrix product, whose gradient is a sum of two terms that 16 bits would
// round.
TEST(Recompute, PassesOnTheF32GradientOfA16BitCopy) {
  const auto gradient = [](bool again, DType lower) {
    manual_seed(2);
    Sequential net(std::make_unique<Linear>(16, 16));
    if (again) recompute(net);
    const Tensor x = randn({4, 16}).set_requires_grad(true);
    const amp::Autocast region({.level = amp::Level::kO1, .lower = lower});
    sum(net(x.astype(lower)), {}, false, DType::kF32).backward();
    return x.grad().to_vector<float>();
  };
  for (const DType lower : {DType::kBf16, DType::kF16}) {
    EXPECT_EQ(gradient(true, lower), gradient(false, lower)) << name_of(lower);
    const auto is_rounded = [&](float v) { return full({1}, v, lower).item() == v; };
    EXPECT_FALSE(std::ranges::all_of(gradient(false, lower), is_rounded)) << name_of(lower);
  }
}

// Adds a tensor that the module does not know.
class AddsSomething final : public Module {
 public:
  explicit AddsSomething(Tensor what) : what_(std::move(what)) { add("linear", linear_); }
  Tensor forward(const Tensor& x) override { return linear_(x) + what_; }

 private:
  Linear linear_{4, 4};
  Tensor what_;
};

TEST(Recompute, RefusesTensorsThatWouldLoseTheirGradients) {
  const Tensor x = ones({2, 4}).set_requires_grad(true);
  const Tensor outside = ones({4}).set_requires_grad(true);
  for (const Tensor& what : {outside, outside * outside}) {
    AddsSomething net(what);
    recompute(net);
    const Tensor loss = sum(net(x));
    EXPECT_THAT(message_of([&] { loss.backward(); }),
                HasSubstr("uses a tensor (f32[4]) that requires a gradient and is neither"));
  }
  AddsSomething net(outside.detach());
  recompute(net);
  sum(net(x)).backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Recompute, NoticesWhatChangedInside) {
  Block block(4);
  recompute(block);
  const Tensor x = randn({2, 4, 5, 5}).set_requires_grad(true);
  Tensor loss = sum(block(x));
  block.find("dropout")->eval();
  EXPECT_THAT(message_of([&] { loss.backward(); }),
              HasSubstr("module dropout was switched between training and inference"));
  block.find("norm")->eval();
  loss = sum(block(x));
  fill(block.find("norm")->named_buffers()[0].tensor, 3);
  EXPECT_THAT(message_of([&] { loss.backward(); }),
              HasSubstr("a buffer of the module norm (f32[4])"));
  block.train();
  loss = sum(block(x));
  block(x);  // changes the running statistics, on which nothing depended
  loss.backward();
  EXPECT_TRUE(x.grad().defined());
}

// A module that counts its forward passes in a buffer by itself, and returns its input.
class Counting final : public Module {
 public:
  Counting() {
    add("inner", inner_);
    add_buffer("count", count);
  }
  Tensor forward(const Tensor& x) override {
    fill(count, count.item() + 1);
    return passes_on ? x : inner_(x);
  }
  Tensor count = zeros({});
  bool passes_on = false;

 private:
  Linear inner_{2, 2};
};

TEST(Recompute, LeavesBuffersAsTheForwardPassLeftThem) {
  Counting net;
  recompute(net);
  sum(net(ones({3, 2}))).backward();
  EXPECT_EQ(net.count.item(), 1);
}

TEST(Recompute, OfAModuleThatGivesBackItsInput) {
  Counting net;
  net.passes_on = true;
  recompute(net);
  const Tensor x = ones({3, 2}).set_requires_grad(true);
  const Tensor y = net(x);
  EXPECT_TRUE(x.is_leaf());
  sum(y).backward();
  ASSERT_TRUE(x.grad().defined());
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(6, 1));
}

TEST(Recompute, RecordsNothingIfNothingIsTrained) {
  Counting net;
  for (Tensor parameter : net.parameters()) parameter.set_requires_grad(false);
  recompute(net);
  EXPECT_FALSE(net(ones({3, 2})).requires_grad());
}

}  // namespace
}  // namespace mezzo::nn
