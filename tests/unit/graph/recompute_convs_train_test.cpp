// Tests trainings that recompute convolutions: they have the bits of those that keep them.
#include <algorithm>
#include <functional>
#include <memory>

#include "mezzo/amp/autocast.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

// The second convolution makes four times as many channels of normalised images, and is little work
// compared with the third.
class WideConvs : public nn::Module {
 public:
  WideConvs() {
    add("first", first_), add("bn1", bn1_), add("wide", wide_), add("bn2", bn2_);
    add("third", third_), add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(bn2_(wide_(relu(bn1_(first_(x))))));
    return fc_(mean(third_(y), {2, 3}));
  }

 private:
  nn::Conv2d first_{3, 16, 3, {.padding = 1}};
  nn::BatchNorm2d bn1_{16};
  nn::Conv2d wide_{16, 64, 1};
  nn::BatchNorm2d bn2_{64};
  nn::Conv2d third_{64, 96, 7, {.padding = 3}};
  nn::Linear fc_{96, 3};
};

using MakeNet = std::function<std::unique_ptr<nn::Module>()>;

std::unique_ptr<nn::Module> wide_net() { return std::make_unique<WideConvs>(); }

std::unique_ptr<nn::Module> frozen_wide_net() {
  auto net = wide_net();
  for (const NamedTensor& entry : net->named_parameters()) {
    if (entry.name == "wide.weight") Tensor(entry.tensor).set_requires_grad(false);
  }
  return net;
}

std::unique_ptr<nn::Module> resnet20() { return models::create("resnet20", {3, 10, 32}); }

Batch batch_of(std::uint64_t seed, std::int64_t n = 8) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back((i + static_cast<std::int64_t>(seed)) % 3);
  return {randn({n, 3, 32, 32}, generator), from_values(labels, {n})};
}

// A captured training in a region of that dtype; f32 without one.
class ConvTraining {
 public:
  ConvTraining(const MakeNet& make_net, DType dtype, const PassOptions& passes = {},
               const RecordOptions& record = {})
      : net_((manual_seed(5), make_net())),
        sgd_(trained(*net_), kSgd),
        step_([this, dtype](std::span<const Tensor> in) { return call(dtype, in); },
              {.networks = {net_.get()}, .passes = passes, .record = record}) {}
  ConvTraining(const ConvTraining&) = delete;
  ConvTraining& operator=(const ConvTraining&) = delete;

  double operator()(const Batch& batch) {
    const Tensor inputs[] = {batch.images, batch.labels};
    return step_(inputs)[0].item();
  }
  const Executable& executable() const { return *step_.latest(); }
  auto state() const { return amp::everything(*net_, sgd_); }

 private:
  static std::vector<Tensor> trained(const nn::Module& net) {
    std::vector<Tensor> parameters = net.parameters();
    std::erase_if(parameters, [](const Tensor& p) { return !p.requires_grad(); });
    return parameters;
  }

  std::vector<Tensor> call(DType dtype, std::span<const Tensor> in) {
    Tensor loss;
    {
      const bool is_lower = dtype != DType::kF32;
      const amp::Policy policy{.level = amp::Level::kO2, .lower = is_lower ? dtype : DType::kBf16};
      const amp::Autocast region(policy, is_lower);
      loss = amp::class_loss((*net_)(in[0]), in[1]);
    }
    loss.backward();
    sgd_.step();
    sgd_.zero_grad();
    return {loss.detach()};
  }

  std::unique_ptr<nn::Module> net_;
  optim::Sgd sgd_;
  CompiledStep step_;
};

std::ptrdiff_t convs_again(const Program& program) {
  static const OpDef* const kConv = find_op("conv2d");
  return std::ranges::count_if(program.nodes, [&](const Node& node) {
    return node.op == kConv && node.phase == Phase::kBackward;
  });
}

const PassOptions kKeeps{.disabled = {"recompute_convs"}};

void expect_same_bits(const MakeNet& make_net, DType dtype, const RecordOptions& record = {}) {
  ConvTraining with(make_net, dtype, {}, record);
  ConvTraining without(make_net, dtype, kKeeps);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(with(batch_of(i)), without(batch_of(i)));
  EXPECT_TRUE(with.state() == without.state()) << concat(dtype);
  EXPECT_GT(convs_again(with.executable().program()), 0) << concat(dtype);
  EXPECT_EQ(convs_again(without.executable().program()), 0);
  const std::size_t kept = plan_memory(without.executable().program()).arena_bytes;
  const std::size_t arena = plan_memory(with.executable().program()).arena_bytes;
  EXPECT_LE(arena, kept - kept / 20) << concat(dtype);
}

TEST(RecomputeConvsInTraining, HasTheBitsOfTheProgramThatKeepsThem) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    expect_same_bits(wide_net, dtype);
  }
}

TEST(RecomputeConvsInTraining, AWeightThatIsNotTrained) {
  expect_same_bits(frozen_wide_net, DType::kBf16);
}

TEST(RecomputeConvsInTraining, OfAResidualNetwork) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) expect_same_bits(resnet20, dtype);
}

TEST(RecomputeConvsInTraining, HasTheBitsOfEagerSteps) {
  Twins<nn::Module> twins(wide_net, kSgd, {.level = "O2", .dtype = DType::kBf16});
  for (std::uint64_t i = 0; i < 3; ++i) twins.step(batch_of(i));
  twins.expect_same_state();
}

TEST(RecomputeConvsInTraining, Recorded) {
  RecorderLog log;
  expect_same_bits(wide_net, DType::kBf16, recorded_in(log));
  EXPECT_GT(log.launches, 0);
}

// The pass measures work in arithmetic and in memory, so the added share of the arithmetic alone is
// smaller than the limit.
TEST(RecomputeConvsInTraining, IsASmallShareOfTheArithmetic) {
  for (const MakeNet& make_net : {MakeNet(wide_net), MakeNet(resnet20)}) {
    ConvTraining training(make_net, DType::kBf16);
    training(batch_of(1));
    const Program& program = training.executable().program();
    double all = 0;
    double again = 0;
    for (const Node& node : program.nodes) {
      if (node.is_host() || node.op->flops == nullptr) continue;
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      for (const ValueId v : node.inputs) {
        inputs.push_back(v != kNoValue ? stand_in(program.spec(v)) : Tensor());
      }
      for (const ValueId v : node.outputs) outputs.push_back(stand_in(program.spec(v)));
      std::vector<const Tensor*> pointers;
      for (const Tensor& input : inputs) pointers.push_back(&input);
      const double flops = node.op->flops(pointers, outputs, node.attrs);
      all += flops;
      const bool is_again = node.op == find_op("conv2d") && node.phase == Phase::kBackward;
      if (is_again) again += flops;
    }
    EXPECT_GT(again, 0);
    EXPECT_LT(again, 0.015 * all);
  }
}

}  // namespace
}  // namespace mezzo::graph
