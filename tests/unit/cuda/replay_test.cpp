// Tests programs on a device, recorded as CUDA graphs: they have the bits of eager steps.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/graph/user_graphs.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using Tensors = std::span<const Tensor>;

class CudaReplay : public OnCard<> {};

enum class Mode { kEager, kGraph, kRecorded };

// Losses and parameters of some steps of the small network. cuDNN's engines are chosen once per
// process and thread, so all modes use the same ones.
std::vector<std::vector<float>> training(Mode mode, const amp::Policy& policy, bool scaled) {
  manual_seed(21);
  amp::SmallNet net;
  net.to(kCard);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::TrainStep step(net, amp::class_loss, optimizer,
                      scaled ? amp::GradScaler() : amp::GradScaler({}, false), {.policy = policy});
  if (mode != Mode::kEager) {
    step.set_execution(graph::captured(net, {.enabled = mode == Mode::kRecorded}));
  }
  std::vector<std::vector<float>> numbers(1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const amp::Batch batch = amp::small_batch(i % 3);
    const double loss = step(batch.images.to(kCard), batch.labels.to(kCard)).loss;
    numbers[0].push_back(static_cast<float>(loss));
  }
  for (const Tensor& parameter : net.parameters()) {
    numbers.push_back(parameter.to_vector<float>());
  }
  return numbers;
}

TEST_F(CudaReplay, TrainingHasTheBitsOfEagerSteps) {
  for (const amp::Policy& policy :
       {amp::Policy{amp::Level::kO0}, amp::Policy{amp::Level::kO2, DType::kBf16},
        amp::Policy{amp::Level::kO2, DType::kF16}}) {
    const bool scaled = policy.lower == DType::kF16;
    const auto eager = training(Mode::kEager, policy, scaled);
    EXPECT_EQ(training(Mode::kGraph, policy, scaled), eager);
    EXPECT_EQ(training(Mode::kRecorded, policy, scaled), eager);
  }
}

// A single weight, which returns to its address on the device, since the allocator reuses the last
// freed block. The update's flags and lists get other addresses.
std::vector<float> training_with_a_step_on_the_host(bool is_recorded) {
  manual_seed(21);
  nn::Linear net(64, 100, false);
  net.to(kCard);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  amp::TrainStep step(net, amp::class_loss, optimizer, amp::GradScaler());
  step.set_execution(graph::captured(net, {.enabled = is_recorded}));
  std::vector<float> losses;
  std::vector<Tensor> in_the_way;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const Device device = i == 6 ? kCpuDevice : kCard;
    net.to(device);
    const amp::Batch batch = amp::small_batch(i % 3);
    const Tensor images = flatten(batch.images, 1).to(device);
    losses.push_back(static_cast<float>(step(images, batch.labels.to(device)).loss));
    if (i != 6) continue;
    for (int k = 0; k < 40; ++k) {
      in_the_way.push_back(zeros({16}, DType::kF32, Format::kContiguous, kCard));
    }
  }
  return losses;
}

TEST_F(CudaReplay, ANetworkMayHaveBeenElsewhere) {
  EXPECT_EQ(training_with_a_step_on_the_host(true), training_with_a_step_on_the_host(false));
}

// A chain with memory that kernels need while they run.
TEST_F(CudaReplay, RecordsOnceAndLaunchesFromThenOn) {
  const Tensor weight = randn({64, 64}).to(kCard);
  const auto step = [&](Tensors in) {
    return std::vector<Tensor>{sum(relu(matmul(relu(matmul(in[0], weight)), weight) + 1))};
  };
  graph::CompiledStep compiled = graph::compile(step);
  std::vector<std::int64_t> live;
  for (int i = 0; i < 8; ++i) {
    const Tensor x = randn({32, 64}).to(kCard);
    EXPECT_EQ(compiled({&x, 1})[0].item(), step({&x, 1})[0].item()) << "run " << i;
    live.push_back(memory_stats(kCard).live_bytes);
  }
  ASSERT_NE(compiled.latest()->replay(), nullptr);
  EXPECT_EQ(compiled.latest()->replay()->segments().size(), 1);
  EXPECT_EQ(live[7], live[3]) << "launches take no memory";
}

// Values derived or saved from them are known to be stale, though a launch does not report its
// changes.
TEST_F(CudaReplay, RunningStatisticsCountAsChanged) {
  amp::SmallNet net;
  net.to(kCard);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  amp::TrainStep step(net, amp::class_loss, optimizer, amp::GradScaler());
  step.set_execution(graph::captured(net));
  const auto buffers = net.named_buffers();
  ASSERT_EQ(buffers.size(), 3U);
  for (std::uint64_t i = 0; i < 8; ++i) {
    std::vector<std::uint64_t> before;
    for (const auto& buffer : buffers) before.push_back(buffer.tensor.version());
    const amp::Batch batch = amp::small_batch(i);
    step(batch.images.to(kCard), batch.labels.to(kCard));
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      EXPECT_GT(buffers[k].tensor.version(), before[k]) << buffers[k].name << " in step " << i;
    }
  }
}

// First eagerly, then in launches.
TEST_F(CudaReplay, AGraphPutsBuffersOfSkippedStepsBack) {
  graph::Training trained;
  trained.net.to(kCard);
  graph::TrainGraph graph(trained);
  graph.config.restore_buffers();
  const auto statistics = [&] {
    std::vector<std::vector<double>> numbers;
    for (const NamedTensor& buffer : trained.net.named_buffers()) {
      numbers.push_back(buffer.tensor.to_vector<double>());
    }
    return numbers;
  };
  for (std::uint64_t i = 0; i < 8; ++i) {
    const amp::Batch batch = amp::small_batch(i);
    if (i % 3 == 1) fill(batch.images, INFINITY);
    const auto before = statistics();
    if (i == 5) {  // a launch, whose update finds the error
      const Tensor labels = full(batch.labels.shape(), 3, DType::kI64);  // of classes 0 to 2
      EXPECT_THROW(graph(batch.images.to(kCard), labels.to(kCard)), ArgumentError);
      EXPECT_EQ(statistics(), before);
      continue;
    }
    graph(batch.images.to(kCard), batch.labels.to(kCard));
    EXPECT_EQ(graph.updates()[0].step.found_inf, i % 3 == 1) << i;
    EXPECT_EQ(statistics() == before, i % 3 == 1) << i;
  }
}

class UnscalingGraph : public graph::Graph<Tensor(Tensor, Tensor)> {
 public:
  explicit UnscalingGraph(graph::Training& training) : training_(training) {
    add_module(training.net);
    add_optimizer(training.optimizer, {.max_grad_norm = 1});
    set_grad_scaler(training.scaler);
  }

 private:
  Tensor build(const Tensor& x, const Tensor& labels) override {
    const Tensor loss = amp::class_loss(training_.net(x), labels);
    backward(loss);
    training_.scaler.unscale_(training_.optimizer);
    return loss;
  }

  graph::Training& training_;
};

// Clipping unscales by itself; otherwise it would find a norm of 0.
TEST_F(CudaReplay, GradientsAreUnscaledOnceWhereTheyAreClipped) {
  graph::Training trained;
  trained.net.to(kCard);
  UnscalingGraph graph(trained);
  const amp::Batch batch = amp::small_batch(1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(
        message_of<ArgumentError>([&] { graph(batch.images.to(kCard), batch.labels.to(kCard)); }),
        testing::HasSubstr("unscale_() was already called on this optimizer"));
  }
}

// A launch reads where in the stream its run starts.
TEST_F(CudaReplay, DropoutIsRecordedAndDrawsWhatItDrawsEagerly) {
  const auto step = [](Tensors in) {
    return std::vector<Tensor>{dropout(dropout(in[0] * 2, 0.3) + 1, 0.5)};
  };
  const Tensor x = ones({1021}).to(kCard);
  graph::CompiledStep compiled = graph::compile(step);
  for (int i = 0; i < 6; ++i) {
    const RandomPosition before = default_generator().position();
    const std::vector<float> dropped = compiled({&x, 1})[0].to_vector<float>();
    default_generator().set_position(before);
    EXPECT_EQ(dropped, step({&x, 1})[0].to_vector<float>()) << "run " << i;
  }
  ASSERT_NE(compiled.latest()->replay(), nullptr);
  EXPECT_EQ(compiled.latest()->replay()->segments().size(), 1);
}

// A recording that is refused half-way leaves the queue as it was: f64 is computed on the host.
TEST_F(CudaReplay, WhatIsComputedOnTheHostIsNotRecorded) {
  const auto step = [](Tensors in) {
    const Tensor wide = relu(relu(in[0].astype(DType::kF64)) * 2);
    return std::vector<Tensor>{sum(relu(relu(wide.astype(DType::kF32))))};
  };
  graph::CompiledStep compiled = graph::compile(step);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = randn({32}).to(kCard);
    EXPECT_EQ(compiled({&x, 1})[0].item(), step({&x, 1})[0].item()) << "run " << i;
  }
}

}  // namespace
}  // namespace mezzo
