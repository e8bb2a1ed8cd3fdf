// Compares replays of recordings with eager steps: they have the same bits. The recorder is one for
// the CPU.
#include "mezzo/graph/replay.h"

#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "mezzo/nn/dropout.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

using Tensors = std::span<const Tensor>;
using Values = std::vector<double>;

// Forward and backward pass are one recording: loss and gradients are checked after it.
TEST(Replay, TrainingHasTheBitsOfEagerSteps) {
  for (const char* level : {"O0", "O1", "O2", "O3"}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      RecorderLog log;
      Twins<amp::SmallNet> twins(small_net, kSgd, {.level = level, .dtype = dtype},
                                 amp::LossScaleOptions{.init_scale = 1024}, amp::class_loss,
                                 recorded_in(log));
      for (std::uint64_t i = 0; i < 6; ++i) {
        twins.step(amp::small_batch(i));
        twins.expect_same_state();
      }
      EXPECT_EQ(log.recorders, 1);
      EXPECT_EQ(log.recordings, 1) << concat(level, " ", dtype, ": copies stay where they are");
      EXPECT_EQ(log.launches, 6 - kEager);
    }
  }
}

TEST(Replay, SkippedStepsAreSkipped) {
  RecorderLog log;
  Twins<amp::SmallNet> twins(small_net, kSgd, {.level = "O2", .dtype = DType::kF16},
                             amp::LossScaleOptions{.init_scale = 256}, amp::class_loss,
                             recorded_in(log));
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Batch batch = amp::small_batch(i);
    if (i % 3 == 0) fill(batch.images, std::numeric_limits<double>::infinity());
    EXPECT_EQ(twins.step(batch).skipped, i % 3 == 0);
    twins.expect_same_state();
  }
  EXPECT_EQ(log.launches, 8 - kEager - 1) << "the first ended early, the others skip by themselves";
}

// The copy of an edited parameter is a new one, at another address.
TEST(Replay, EditedParametersAreSeen) {
  RecorderLog log;
  Twins<amp::SmallNet> twins(small_net, kSgd, {.level = "O2", .dtype = DType::kBf16}, std::nullopt,
                             amp::class_loss, recorded_in(log));
  for (std::uint64_t i = 0; i < 8; ++i) {
    twins.step(amp::small_batch(i));
    for (nn::Module* net : {&twins.eager_net(), &twins.graph_net()}) {
      if (i % 2 == 1) fill(net->parameters()[0], 0.01 * static_cast<double>(i));
    }
  }
  twins.expect_same_state();
}

TEST(Replay, ParametersThatLieElsewhereAreRecordedAgain) {
  RecorderLog log;
  const Tensor weight = randn({3, 4});
  const auto step = [&](Tensors in) {
    return std::vector<Tensor>{sum(relu(matmul(in[0], weight) + 1))};
  };
  CompiledStep compiled = compile(step, {.record = recorded_in(log)});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({2, 3});
    if (i == 4) weight.impl()->storage = randn({3, 4}).storage();
    const Values got = compiled({&x, 1})[0].to_vector<double>();
    EXPECT_EQ(got, step({&x, 1})[0].to_vector<double>());
  }
  EXPECT_EQ(log.recordings, 2);
  EXPECT_EQ(log.launches, 4);
}

TEST(Replay, ViewsFollowParametersThatLieElsewhere) {
  const Tensor weight = randn({4, 3});
  const auto step = [&](Tensors in) {
    return std::vector<Tensor>{sum(relu(matmul(in[0], transpose(weight))))};
  };
  for (const bool records : {false, true}) {
    RecorderLog log;
    CompiledStep compiled = compile(step, {.record = records ? recorded_in(log) : RecordOptions{}});
    for (int i = 0; i < 6; ++i) {
      const Tensor x = randn({2, 3});
      if (i == 4) weight.impl()->storage = randn({4, 3}).storage();
      const Values got = compiled({&x, 1})[0].to_vector<double>();
      EXPECT_EQ(got, step({&x, 1})[0].to_vector<double>()) << i;
    }
  }
}

// The host work may keep its inputs.
TEST(Replay, InputsThatHostWorkReadsAreNotWrittenOverByTheNextRun) {
  RecorderLog log;
  std::vector<Tensor> kept;
  const auto step = [&](Tensors in) {
    do_host_work("keep", {&in[0], 1}, {}, [&](Tensors reads) {
      kept.push_back(reads[0]);
      return true;
    });
    return std::vector<Tensor>{sum(relu(in[0]) * 2)};
  };
  CompiledStep compiled = compile(step, {.record = recorded_in(log)});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = full({2}, i);
    compiled({&x, 1});
  }
  ASSERT_EQ(kept.size(), 4U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].to_vector<double>(), Values(2, static_cast<double>(i)));
  }
}

// The recording reads the run's start in the stream and computes the rest of the mask.
TEST(Replay, DropoutIsRecordedAndDrawsOtherNumbersInEveryRun) {
  class Net : public nn::Module {
   public:
    Net() {
      add("body", body_);
      add("drop", drop_);
    }
    Tensor forward(const Tensor& x) override { return drop_(body_(x)) * 2; }

   private:
    amp::SmallNet body_;
    nn::Dropout drop_{0.3};
  };
  RecorderLog log;
  Twins<Net> twins([] { return std::make_unique<Net>(); }, kSgd,
                   {.level = "O2", .dtype = DType::kBf16}, std::nullopt, amp::class_loss,
                   recorded_in(log));
  for (std::uint64_t i = 0; i < 6; ++i) twins.step(amp::small_batch(i));
  twins.expect_same_state();
  EXPECT_EQ(log.recordings, 1);
  EXPECT_EQ(log.launches, 6 - kEager);
}

// A program that returns one of its inputs, a view of another, and results.
TEST(Replay, WhatARunReturnsIsTheCallers) {
  RecorderLog log;
  const auto step = [](Tensors in) {
    const Tensor y = relu(relu(in[0] + in[1]) + in[2]);
    return std::vector<Tensor>{in[0], reshape(in[1], {1, 3}), y, sum(y)};
  };
  CompiledStep compiled = compile(step, {.record = recorded_in(log)});
  std::vector<std::vector<Tensor>> results;
  for (int i = 1; i <= 4; ++i) {
    const std::vector<Tensor> in{full({3}, i), full({3}, 10 * i), full({3}, 100 * i)};
    results.push_back(compiled(in));
  }
  for (int i = 1; i <= 4; ++i) {
    const std::vector<Tensor>& result = results[static_cast<std::size_t>(i) - 1];
    EXPECT_EQ(result[0].to_vector<double>(), Values(3, i));
    EXPECT_EQ(result[1].to_vector<double>(), Values(3, 10 * i));
    EXPECT_EQ(result[2].to_vector<double>(), Values(3, 111 * i));
    EXPECT_EQ(result[3].item(), 333 * i);
  }
}

// A chain of calls, of which only the sum is returned.
std::vector<Tensor> chain(Tensors in) { return {sum(relu(exp(relu(in[0] * 2) + 1)))}; }

// Runs the chain six times.
void expect_chain(RecorderLog& log) {
  CompiledStep compiled = compile(chain, {.record = recorded_in(log)});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({5});
    EXPECT_EQ(compiled({&x, 1})[0].item(), chain({&x, 1})[0].item());
  }
}

// 16-bit gradients become f32 when they are unscaled; they are also returned as f32.
TEST(Replay, UnscaledGradientsAreReturnedUnrounded) {
  const Tensor w = (randn({8, 8}) * 0.3).astype(DType::kBf16).detach().set_requires_grad(true);
  optim::Sgd sgd({w}, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 3});
  const Step step = [&](Tensors in) {
    scaler.scale(sum(tanh(matmul(in[0], w)))).backward();
    scaler.unscale_(sgd);
    const std::vector<Tensor> results{w.grad()};
    scaler.update();
    sgd.zero_grad();
    return results;
  };
  const Tensor x = randn({4, 8});
  const Tensor want = step({&x, 1})[0];
  ASSERT_EQ(want.dtype(), DType::kF32);
  RecorderLog log;
  CompiledStep compiled = compile(step, {.record = recorded_in(log)});
  for (int run = 0; run < kEager + 2; ++run) {
    const Tensor got = compiled({&x, 1})[0];
    EXPECT_EQ(got.dtype(), DType::kF32);
    EXPECT_EQ(got.to_vector<double>(), want.to_vector<double>());
  }
}

TEST(Replay, ARefusedCallIsLeftOut) {
  RecorderLog log;
  log.refuses_after = 2;
  expect_chain(log);
  EXPECT_EQ(log.recordings, 2) << "before it and behind it";
  EXPECT_EQ(log.launches, 2 * 4 - 1) << "that before it from the next run on";
}

TEST(Replay, WithoutRecordingsItRunsEagerly) {
  RecorderLog log;
  log.refuses_all = true;
  expect_chain(log);
  EXPECT_EQ(log.launches, 0);
}

TEST(Replay, AnotherThreadRecordsAnew) {
  RecorderLog log;
  CompiledStep compiled = compile(chain, {.record = recorded_in(log)});
  const auto run = [&] {
    const Tensor x = ones({5});
    for (int i = 0; i < 4; ++i) compiled({&x, 1});
  };
  run();
  EXPECT_EQ(log.recordings, 1);
  std::thread(run).join();
  EXPECT_EQ(log.recordings, 2);
  EXPECT_EQ(log.launches, 4);
}

TEST(Replay, WhoListensToKernelsHearsOfAll) {
  struct Count final : KernelListener {
    int kernels = 0;
    void on_run(const KernelWork&, double) override { ++kernels; }
  };
  RecorderLog log;
  CompiledStep compiled = compile(chain, {.record = recorded_in(log)});
  const Tensor x = ones({5});
  for (int i = 0; i < 3; ++i) compiled({&x, 1});
  EXPECT_EQ(log.launches, 1);
  Count count;
  {
    const ListenToKernels listening(count);
    compiled({&x, 1});
  }
  EXPECT_EQ(count.kernels, 6);
  EXPECT_EQ(log.launches, 1);
}

TEST(Replay, HostWorkMayEndARunBetweenRecordings) {
  RecorderLog log;
  bool goes_on = true;
  const auto step = [&](Tensors in) {
    const Tensor y = relu(in[0] + 1);
    do_host_work("look", {&y, 1}, {}, [&](Tensors) { return goes_on; });
    return std::vector<Tensor>{sum(relu(y * 2))};
  };
  CompiledStep compiled = compile(step, {.record = recorded_in(log)});
  const Tensor x = ones({3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compiled({&x, 1})[0].item(), 12);
  goes_on = false;
  EXPECT_TRUE(compiled({&x, 1}).empty());
  goes_on = true;
  EXPECT_EQ(compiled({&x, 1})[0].item(), 12);
}

TEST(Replay, CanBeSwitchedOff) {
  RecorderLog log;
  RecordOptions options = recorded_in(log);
  options.enabled = false;
  CompiledStep compiled = compile(chain, {.record = options});
  const Tensor x = ones({5});
  compiled({&x, 1});
  EXPECT_EQ(log.recorders, 0);
  EXPECT_EQ(compiled.latest()->replay(), nullptr);
  EXPECT_EQ(make_recorder(kCpuDevice, {}), nullptr) << "the CPU queues nothing";
}

}  // namespace
}  // namespace mezzo::graph
