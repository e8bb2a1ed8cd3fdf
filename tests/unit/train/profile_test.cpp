#include "mezzo/train/profile.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/train/run.h"

namespace mezzo::train {
namespace {

using amp::StepPhase;
using testing::ElementsAre;

class KernelTimes final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double ms) override {
    works.push_back(work);
    times.push_back(ms);
  }
  std::vector<KernelWork> works;
  std::vector<double> times;
};

TEST(KernelListener, IsToldOfWorkWithItsProductsAndBytes) {
  const Tensor a = ones({2, 3, 4});
  const Tensor b = ones({4, 5});
  const Tensor x = ones({2, 3, 6, 6});
  const Tensor weight = ones({8, 3, 3, 3});
  KernelTimes recorder;
  {
    const ListenToKernels listening(recorder);
    matmul(a, b);
    conv2d(x, weight, {}, {.stride = 2, .padding = 1});
  }
  matmul(a, b);
  // A convolution first converts its operands to the layouts that it needs.
  ASSERT_GE(recorder.works.size(), 2U);
  const KernelWork& product = recorder.works.front();
  EXPECT_STREQ(product.op, "matmul");
  EXPECT_EQ(product.flops, 2 * (2 * 3 * 5) * 4);
  EXPECT_EQ(product.bytes, 4 * (2 * 3 * 4 + 4 * 5 + 2 * 3 * 5));
  const KernelWork& convolution = recorder.works.back();
  EXPECT_STREQ(convolution.op, "conv2d");
  EXPECT_EQ(convolution.flops, 2 * (2 * 8 * 3 * 3) * (3 * 3 * 3));
  EXPECT_EQ(convolution.bytes, 4 * (2 * 3 * 6 * 6 + 8 * 3 * 3 * 3 + 2 * 8 * 3 * 3));
  EXPECT_GT(recorder.times.back(), 0);
}

TEST(KernelListener, GradientsOfAConvolutionHaveItsProducts) {
  Tensor x = ones({2, 3, 6, 6});
  Tensor weight = ones({8, 3, 3, 3});
  x.set_requires_grad(true);
  weight.set_requires_grad(true);
  KernelTimes recorder;
  const ListenToKernels listening(recorder);
  const Tensor y = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
  y.backward(ones(y.shape()));
  std::set<std::string> ops;
  for (const KernelWork& work : recorder.works) {
    if (work.flops == 0) continue;
    ops.insert(work.op);
    EXPECT_EQ(work.flops, 2 * (2 * 8 * 3 * 3) * (3 * 3 * 3)) << work.op;
  }
  EXPECT_THAT(ops, ElementsAre("conv2d", "conv2d_grad_input", "conv2d_grad_weight"));
}

TEST(KernelListener, TimeOfAnInnerKernelIsNotCountedTwice) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  KernelTimes recorder;
  const ListenToKernels listening(recorder);
  const auto wait = [] {
    const auto end = std::chrono::steady_clock::now() + Milliseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  const auto start = std::chrono::steady_clock::now();
  run_listened([] { return KernelWork{.op = "outer"}; },
               [&] { run_listened([] { return KernelWork{.op = "inner"}; }, wait); });
  const Milliseconds all = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(recorder.works.size(), 2U);
  EXPECT_STREQ(recorder.works[0].op, "inner");
  EXPECT_GE(recorder.times[0], 20);
  EXPECT_GE(recorder.times[1], 0);
  // Wherever the program is interrupted, times that are counted once fit into the whole.
  EXPECT_LE(recorder.times[0] + recorder.times[1], all.count());
}

TEST(KernelListener, ProductsOfAnInnerKernelAreNotCountedTwice) {
  KernelTimes recorder;
  const ListenToKernels listening(recorder);
  const auto run = [](const char* op, double flops, const auto& body) {
    run_listened([&] { return KernelWork{.op = op, .flops = flops, .bytes = 8}; }, body);
  };
  run("outermost", 100, [&] {
    run("outer", 40, [&] { run("inner", 50, [] {}); });  // the outer call adds time
    run("second", 20, [] {});
  });
  run("next", 7, [] {});
  std::vector<double> flops;
  for (const KernelWork& work : recorder.works) {
    flops.push_back(work.flops);
    EXPECT_EQ(work.bytes, 8) << work.op;
  }
  EXPECT_THAT(flops, ElementsAre(50, 0, 20, 30, 7));
}

TEST(KernelListener, IsToldOfChecksInPlace) {
  const std::vector<Tensor> tensors{ones({100}), ones({28}, DType::kF16)};
  KernelTimes recorder;
  const ListenToKernels listening(recorder);
  EXPECT_FALSE(first_nonfinite(tensors).has_value());
  ASSERT_EQ(recorder.works.size(), 1U);
  EXPECT_STREQ(recorder.works[0].op, "all_finite");
  EXPECT_EQ(recorder.works[0].bytes, 4 * 100 + 2 * 28);
}

TEST(Profile, AddsUpByPhaseAndPutsTheLongestFirst) {
  Profile profile;
  profile.on_run({.op = "relu", .kernel = "a", .bytes = 10}, 1);
  profile.on_run({.op = "matmul", .kernel = "a", .flops = 8, .bytes = 10}, 2);
  profile.on_run({.op = "relu", .kernel = "a", .bytes = 30}, 3);
  profile.on_run({.op = "relu", .kernel = "b", .bytes = 30}, 0.5);
  profile.begin(StepPhase::kBackward);
  profile.on_run({.op = "relu", .kernel = "a", .dtype = DType::kBf16}, 9);
  const std::vector<ProfileRow> rows = profile.rows();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].op, "relu");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].ms, 4);
  EXPECT_EQ(rows[0].bytes, 40);
  EXPECT_EQ(rows[1].op, "matmul");
  EXPECT_EQ(rows[2].kernel, "b");
  EXPECT_EQ(rows[3].phase, StepPhase::kBackward);
  profile.reset();
  EXPECT_TRUE(profile.rows().empty());
}

TEST(Profile, TheRooflineIsTheSlowerOfProductsAndMemory) {
  const MachineRates rates{.flops_f32 = 1e9, .flops_bf16 = 4e9, .bytes = 1e9};
  ProfileRow row{.dtype = DType::kF32, .ms = 10, .flops = 5e6, .bytes = 1e6};
  EXPECT_DOUBLE_EQ(row.roofline(rates), 0.5);  // 5 ms of arithmetic, 1 ms of memory
  row.dtype = DType::kBf16;
  EXPECT_DOUBLE_EQ(row.roofline(rates), 0.125);
  row.dtype = DType::kF16;  // computed in f32
  EXPECT_DOUBLE_EQ(row.roofline(rates), 0.5);
  row.flops = 0;
  EXPECT_DOUBLE_EQ(row.roofline(rates), 0.1);
}

TEST(Profile, OfABenchHasEveryPhaseAndOnlyStepsThatCount) {
  RunOptions options;
  options.model = "lenet5";
  options.batch_size = 4;
  Profile profile;
  RunObserver observer;
  const RunResult result = bench(options, {.warmup = 2, .steps = 3, .profile = &profile}, observer);
  std::set<StepPhase> phases;
  double ms = 0;
  std::int64_t convolutions = 0;  // the two may have different kernels, and a row each
  for (const ProfileRow& row : profile.rows()) {
    phases.insert(row.phase);
    ms += row.ms;
    EXPECT_EQ(row.calls % 3, 0) << row.op;
    if (row.op == "conv2d") {
      EXPECT_EQ(row.dtype, DType::kBf16);
      convolutions += row.calls;
    }
  }
  EXPECT_EQ(convolutions, 2 * 3);
  EXPECT_THAT(phases, ElementsAre(StepPhase::kForward, StepPhase::kBackward, StepPhase::kUpdate));
  EXPECT_LE(ms, result.total_ms);
}

// All steps are skipped: at this scale every gradient is infinite.
TEST(Profile, AnUpdateThatIsNotDoneMovesNothing) {
  RunOptions options;
  options.model = "mlp";
  options.batch_size = 4;
  options.policy = {.level = amp::Level::kO2, .lower = DType::kF16};
  options.loss_scale = {.kind = LossScaling::Kind::kStatic, .scale = 1e38};
  Profile profile;
  RunObserver observer;
  const RunResult result = bench(options, {.warmup = 1, .steps = 2, .profile = &profile}, observer);
  ASSERT_EQ(result.skipped_steps, 2);
  int updates = 0;
  for (const ProfileRow& row : profile.rows()) {
    if (row.op != "sgd_step") continue;
    ++updates;
    EXPECT_EQ(row.bytes, 0);
  }
  EXPECT_EQ(updates, 1);
}

// Graph mode's passes join operations.
TEST(Profile, OfGraphModeHasOtherOperations) {
  const auto ops = [](bool graph) {
    RunOptions options;
    options.model = "lenet5";
    options.batch_size = 4;
    options.graph = graph;
    Profile profile;
    RunObserver observer;
    bench(options, {.warmup = 1, .steps = 1, .profile = &profile}, observer);
    std::set<std::string> names;
    for (const ProfileRow& row : profile.rows()) names.insert(row.op);
    return names;
  };
  EXPECT_NE(ops(true), ops(false));
}

}  // namespace
}  // namespace mezzo::train
