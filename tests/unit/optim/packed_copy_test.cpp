// Tests that updates renew the copies of weights in kernels' own layouts.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/pack_count.h"
#include "tests/unit/threads.h"

namespace mezzo::optim {
namespace {

using test::PackCount;

// Convolutions that are small enough for a test. Their weights are large enough for the copies of
// both passes to be renewed, as far as oneDNN's kernels on this CPU need other layouts than the
// weight's.
struct PackedCase {
  Shape weight;
  Format format;
  DType dtype;
};

std::vector<PackedCase> packed_cases() {
  std::vector<PackedCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    if (dtype == DType::kBf16 && !has_fast_bf16()) continue;
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      cases.push_back({{1088, 1024, 1, 1}, format, dtype});
      cases.push_back({{192, 640, 3, 3}, format, dtype});
    }
  }
  return cases;
}

Tensor weight_of(const PackedCase& c) {
  manual_seed(5);
  Tensor weight = empty(c.weight, DType::kF32, c.format);
  copy_elements(randn(c.weight), weight);
  return weight.set_requires_grad(true);
}

struct Results {
  Tensor y, grad_x;
};

// Runs both passes in a region of that dtype, or in f32 only the forward pass, since f32 copies for
// the backward pass are not renewed. The stride excludes Winograd's method.
Results run_conv(const PackedCase& c, const Tensor& weight) {
  manual_seed(6);
  const Tensor x = randn({1, c.weight[1], 5, 4}).astype(c.dtype).set_requires_grad(true);
  const std::int64_t kernel = c.weight[2];
  const Tensor y = conv2d(x, cast(weight, c.dtype), {}, {.stride = kernel, .padding = kernel / 2});
  if (c.dtype == DType::kF32) return {y.detach(), y.detach()};
  const Tensor ones = full(y.shape(), 1).astype(c.dtype);
  return {y.detach(), grad({&y, 1}, {&x, 1}, {&ones, 1})[0]};
}

void expect_same(const Results& a, const Results& b) {
  EXPECT_TRUE(a.y.to_vector<double>() == b.y.to_vector<double>());
  EXPECT_TRUE(a.grad_x.to_vector<double>() == b.grad_x.to_vector<double>());
}

// For 3x3 kernels.
int forms_of(const PackedCase& c) { return c.dtype == DType::kF32 ? 1 : 2; }

int packs_of(const PackedCase& c, const Tensor& weight) {
  const PackCount packs;
  run_conv(c, weight);
  return packs.count;
}

// With a weight that no update has seen.
Results run_fresh(const PackedCase& c, const Tensor& weight) {
  Tensor same = empty(c.weight, DType::kF32, c.format);
  copy_elements(weight.detach(), same);
  return run_conv(c, same.set_requires_grad(true));
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Tensor&)>;
const MakeOptimizer kSgd = [](const Tensor& weight) {
  return std::make_unique<Sgd>(std::vector{weight}, SgdOptions{.lr = 1e-3, .momentum = 0.9});
};
const MakeOptimizer kAdam = [](const Tensor& weight) {
  return std::make_unique<Adam>(std::vector{weight}, AdamOptions{.lr = 1e-3});
};

// Its blocks fit no patches: the copies are written after them.
const MakeOptimizer kNarrowAdam = [](const Tensor& weight) {
  return std::make_unique<Adam>(std::vector{weight},
                                AdamOptions{.lr = 1e-3, .state_dtype = DType::kE4m3});
};

void update(Optimizer& optimizer, const Tensor& weight) {
  const Tensor gradient = empty(weight.shape(), DType::kF32, weight.format());
  copy_elements(weight.detach(), gradient);
  weight.set_grad(gradient);
  optimizer.step();
  optimizer.zero_grad();
}

class PackedCopies : public testing::Test {
  void SetUp() override {
    if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  }
};

// Returns the number of forms that were packed before the first update.
int expect_packed_by_updates(const PackedCase& c, const MakeOptimizer& make) {
  const Tensor weight = weight_of(c);
  const auto optimizer = make(weight);
  const int packed_at_first = packs_of(c, weight);
  for (int step = 0; step < 2; ++step) {
    update(*optimizer, weight);
    const PackCount packs;
    const Results results = run_conv(c, weight);
    EXPECT_EQ(packs.count, 0) << "step " << step;
    expect_same(results, run_fresh(c, weight));
  }
  return packed_at_first;
}

TEST_F(PackedCopies, AreThoseOfTheNewNumbersAndNobodyPacks) {
  int packed_at_first = 0;
  for (const int threads : {1, 3}) {
    const test::Threads guard(threads);
    for (const PackedCase& c : packed_cases()) {
      SCOPED_TRACE(concat(c.weight, c.format, c.dtype, " on ", threads));
      for (const MakeOptimizer& make : {kSgd, kAdam}) {
        packed_at_first += expect_packed_by_updates(c, make);
      }
      expect_packed_by_updates(c, kNarrowAdam);
    }
  }
  if (!test::kOnednnWantsPackedWeights) GTEST_SKIP() << "oneDNN reads weights as they lie";
  EXPECT_GE(packed_at_first, has_fast_bf16() ? 24 : 8) << "3x3 kernels are packed for each pass";
}

// One pass that reads two forms, each once: nothing is left over.
TEST_F(PackedCopies, AreGivenBackWhenTheyHaveBeenRead) {
  if (!test::kOnednnWantsPackedWeights) GTEST_SKIP() << "oneDNN reads weights as they lie";
  const PackedCase c = packed_cases().back();
  const Tensor weight = weight_of(c);
  const auto optimizer = kSgd(weight);
  run_conv(c, weight);
  const auto live = [] { return cpu_allocator().stats().live_bytes; };
  update(*optimizer, weight);
  const std::int64_t before = live();
  run_conv(c, weight);
  EXPECT_EQ(before - live(),
            forms_of(c) * static_cast<std::int64_t>(size_of(c.dtype)) * weight.numel());
}

TEST_F(PackedCopies, OfWeightsThatAreReadTwiceLastUntilTheNextUpdate) {
  for (const PackedCase& c : packed_cases()) {
    SCOPED_TRACE(concat(c.weight, c.format, c.dtype));
    const Tensor weight = weight_of(c);
    const auto optimizer = kSgd(weight);
    for (int pass = 0; pass < 2; ++pass) run_conv(c, weight);
    update(*optimizer, weight);
    for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(packs_of(c, weight), 0);
  }
}

// A second, unexpected reading packs again, and keeps what it has packed.
TEST_F(PackedCopies, MayBeReadMoreOftenThanBefore) {
  for (const PackedCase& c : packed_cases()) {
    SCOPED_TRACE(concat(c.weight, c.format, c.dtype));
    const Tensor weight = weight_of(c);
    const auto optimizer = kSgd(weight);
    const int forms = packs_of(c, weight);
    update(*optimizer, weight);
    EXPECT_EQ(packs_of(c, weight), 0);
    EXPECT_EQ(packs_of(c, weight), forms);
    EXPECT_EQ(packs_of(c, weight), 0);
    expect_same(run_conv(c, weight), run_fresh(c, weight));
  }
}

TEST_F(PackedCopies, AreNotRenewedUnlessTheyWereRead) {
  if (!test::kOnednnWantsPackedWeights) GTEST_SKIP() << "oneDNN reads weights as they lie";
  const PackedCase c = packed_cases().back();
  const Tensor weight = weight_of(c);
  const auto optimizer = kSgd(weight);
  run_conv(c, weight);
  update(*optimizer, weight);
  EXPECT_FALSE(RenewedCopy::find(weight)) << "renewed, and not read since";
  update(*optimizer, weight);
  EXPECT_EQ(packs_of(c, weight), forms_of(c));
}

TEST_F(PackedCopies, AreStaleOnceOthersChangeTheWeight) {
  for (const PackedCase& c : packed_cases()) {
    const Tensor weight = weight_of(c);
    const auto optimizer = kSgd(weight);
    run_conv(c, weight);
    update(*optimizer, weight);
    copy_elements(full(c.weight, 0.25), weight.detach());
    expect_same(run_conv(c, weight), run_fresh(c, weight));
  }
}

// The copies would stay through the forward pass, at whose end memory is scarcest.
TEST_F(PackedCopies, OfSmallWeightsAreNotRenewedForTheBackwardPass) {
  if (!has_fast_bf16()) GTEST_SKIP() << "needs a CPU that multiplies bf16";
  const PackedCase c{{64, 64, 3, 3}, Format::kChannelsLast, DType::kBf16};
  const Tensor weight = weight_of(c);
  const auto optimizer = kSgd(weight);
  run_conv(c, weight);
  update(*optimizer, weight);
  EXPECT_EQ(packs_of(c, weight), 1);
}

TEST_F(PackedCopies, AreNotMadeWherePackingIsDisabled) {
  const PackedCase c = packed_cases().back();
  disable_kernels({"cpu_pack"});
  const Tensor weight = weight_of(c);
  const auto optimizer = kSgd(weight);
  run_conv(c, weight);
  EXPECT_FALSE(RenewedCopy::find(weight));
  update(*optimizer, weight);
  const Results plain = run_conv(c, weight);
  disable_kernels({});
  expect_same(plain, run_fresh(c, weight));
}

}  // namespace
}  // namespace mezzo::optim
