#include "mezzo/amp/names/grad_manager.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::amp {
namespace {

std::vector<float> grad_of(const Tensor& tensor) { return tensor.grad().to_vector<float>(); }

struct Pair {
  Tensor a = from_values({1.0F, 2.0F}, {2});
  Tensor b = from_values({3.0F, 4.0F}, {2});

  Tensor loss() const { return sum(a * b); }
};

TEST(GradManager, CollectsForAttachedTensorsOnly) {
  Pair p;
  p.b.set_requires_grad(true);
  GradManager gm;
  gm.attach(p.a);
  gm.record();
  gm.backward(p.loss());
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
  EXPECT_FALSE(p.b.grad().defined());
  ASSERT_EQ(gm.attached_tensors().size(), 1U);
}

// In bf16 a thousand ones would add up to 256.
TEST(GradManager, AddsGradientsOf16BitsUpInF32) {
  const Tensor w = ones({2}, DType::kBf16);
  GradManager gm;
  gm.attach(w);
  for (int i = 0; i < 500; ++i) {
    gm.record();
    const Tensor losses[] = {sum(w), sum(w)};
    gm.backward(losses);
  }
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  EXPECT_EQ(grad_of(w), (std::vector<float>{1000, 1000}));
}

TEST(GradManager, AddsToGradientsAndTakesDy) {
  Pair p;
  GradManager gm;
  gm.attach(p.a).attach(p.a);
  EXPECT_EQ(gm.attached_tensors().size(), 1U);
  for (int i = 0; i < 2; ++i) {
    const GradManager::Recording recording(gm);
    gm.backward(p.a * p.b, from_values({1.0F, 10.0F}, {2}));
  }
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{6, 80}));
}

TEST(GradManager, TakesSeveralResultsAndAttachedResults) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  gm.record();
  const Tensor middle = p.a * 2;
  gm.attach(middle);
  const std::vector<Tensor> ys = {sum(middle), sum(middle * p.b)};
  gm.backward(ys);
  EXPECT_EQ(grad_of(middle), (std::vector<float>{4, 5}));
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{8, 10}));
}

TEST(GradManager, RecordsUnderNoGradAndOnlyInside) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  const NoGrad guard;
  {
    const GradManager::Recording recording(gm);
    EXPECT_TRUE(gm.is_recording());
    EXPECT_TRUE(p.loss().requires_grad());
  }
  EXPECT_FALSE(gm.is_recording());
  EXPECT_FALSE(p.loss().requires_grad());
}

TEST(GradManager, RecordingsEndInAnyOrder) {
  const NoGrad guard;
  GradManager first;
  {
    GradManager second;
    first.record();
    second.record();
    first.release();
    EXPECT_TRUE(second.is_recording());
    EXPECT_TRUE(grad_enabled());
    first.record();
    EXPECT_TRUE(grad_enabled());
  }
  EXPECT_TRUE(grad_enabled());
  first.release();
  EXPECT_FALSE(grad_enabled());
}

TEST(GradManager, AnExceptionEndsTheRecording) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  const NoGrad guard;
  gm.record();
  EXPECT_THROW(gm.backward(p.a * p.b), ArgumentError);  // not a scalar, and no dy
  EXPECT_FALSE(gm.is_recording());
  EXPECT_FALSE(grad_enabled());
}

TEST(GradManager, MisuseThrows) {
  Pair p;
  GradManager gm;
  EXPECT_THROW(gm.attach(Tensor()), ArgumentError);
  EXPECT_THROW(gm.attach(zeros({2}, DType::kI64)), ArgumentError);
  gm.attach(p.a);
  EXPECT_THROW(gm.backward(p.loss()), ArgumentError);
  gm.record();
  EXPECT_THROW(gm.record(), ArgumentError);
}

// MegEngine's single call: scale, backward, unscale, update.
TEST(GradManager, TheScalersOneCallLeavesTrueGradients) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 1024, .growth_interval = 1});
  gm.record();
  EXPECT_FALSE(scaler.backward(gm, p.loss()).has_value());
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
  EXPECT_EQ(scaler.scale_factor(), 2048);
}

// 3 * 2^20 is infinite in f16.
TEST(GradManager, TheScalersOneCallWeighsWithDyInF32) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 0x1p20});
  gm.record();
  scaler.backward(gm, p.loss(), from_values({3.0F}, {}).astype(DType::kF16));
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{9, 12}));
}

// An iteration with an overflow between two without: nothing of an iteration remains in the next.
TEST(GradManager, IterationsFollowEachOther) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 8, .growth_interval = 1});
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> scales;
  for (const double factor : {1.0, infinity, 1.0}) {
    p.a.clear_grad();
    gm.record();
    EXPECT_EQ(scaler.backward(gm, p.loss() * factor).has_value(), factor == infinity);
    scales.push_back(scaler.scale_factor());
  }
  EXPECT_EQ(scales, (std::vector<double>{16, 8, 16}));
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
}

TEST(GradManager, MicroBatchesAreUnscaledOnce) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 8, .growth_interval = 1});
  gm.record();
  scaler.backward(gm, p.loss(), Tensor(), false);
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{24, 32}));
  gm.record();
  scaler.backward(gm, p.loss());
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{6, 8}));
}

TEST(GradManager, GradientsThatAreUnscaledAlreadyAreLeftAlone) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 8});
  gm.record();
  scaler.backward(gm, p.loss(), Tensor(), true, false);
  gm.record();
  EXPECT_THROW(scaler.backward(gm, p.loss()), ArgumentError);
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
}

TEST(GradManager, NothingToUnscaleIsNoGoodStep) {
  Pair p;
  GradScaler scaler({.init_scale = 8, .growth_interval = 1});
  const Tensor without[] = {p.a};
  EXPECT_FALSE(scaler.unscale(without).has_value());
  scaler.update();
  EXPECT_FALSE(scaler.unscale({}).has_value());
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 8);
  p.a.set_grad(ones({2}));
  scaler.unscale(without);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 16);
}

TEST(GradManager, AnOverflowDropsTheGradientsAndTheOptimizerStandsStill) {
  Pair p;
  p.b = from_values({std::numeric_limits<float>::infinity(), 1.0F}, {2});
  GradManager gm;
  gm.attach(p.a);
  optim::Sgd optimizer(gm.attached_tensors(), {.lr = 1});
  GradScaler scaler({.init_scale = 8});
  gm.record();
  EXPECT_EQ(scaler.backward(gm, p.loss()), 0U);
  EXPECT_FALSE(p.a.grad().defined());
  optimizer.step();
  EXPECT_EQ(p.a.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(scaler.scale_factor(), 4);
  EXPECT_EQ(scaler.skipped_in_a_row(), 1);
}

TEST(GradManager, ByHandWithTheScaleFactor) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 16});
  gm.record();
  gm.backward(p.loss(), full({}, scaler.scale_factor()));
  EXPECT_FALSE(scaler.unscale(gm.attached_tensors()).has_value());
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
  EXPECT_THROW(scaler.unscale(gm.attached_tensors()), ArgumentError);
  scaler.update();
  EXPECT_EQ(scaler.state().growth_tracker(), 1);
}

TEST(GradManager, UnscaledTensorsAreNotUnscaledAgainByStep) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  optim::Sgd optimizer(gm.attached_tensors(), {.lr = 1});
  GradScaler scaler({.init_scale = 16});
  gm.record();
  gm.backward(scaler.scale(p.loss()));
  scaler.unscale(gm.attached_tensors());
  EXPECT_THROW(scaler.step(optimizer), ArgumentError);
  EXPECT_THROW(scaler.unscale_(optimizer), ArgumentError);
}

TEST(GradManager, ADisabledScalerPassesThrough) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({}, false);
  gm.record();
  EXPECT_FALSE(scaler.backward(gm, p.loss()).has_value());
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{3, 4}));
}

TEST(GradManager, OneIterationOfTheScalerMayHaveSeveralManagers) {
  for (const float factor : {1.0F, std::numeric_limits<float>::infinity()}) {
    Pair p;
    GradManager first;
    GradManager second;
    first.attach(p.a);
    second.attach(p.b);
    GradScaler scaler({.init_scale = 16, .growth_interval = 2});
    first.record();
    const auto bad = scaler.backward(first, p.loss() * factor, Tensor(), true, false);
    EXPECT_EQ(bad.has_value(), factor != 1);
    EXPECT_EQ(scaler.get_scale(), 16);
    second.record();
    EXPECT_FALSE(scaler.backward(second, p.loss()).has_value());
    EXPECT_EQ(scaler.get_scale(), factor == 1 ? 16 : 8);
    EXPECT_EQ(scaler.state().growth_tracker(), factor == 1 ? 1 : 0);
    EXPECT_EQ(grad_of(p.b), (std::vector<float>{1, 2}));
    EXPECT_EQ(p.a.grad().defined(), factor == 1);
  }
}

TEST(GradManager, TheScalerTakesSeveralLosses) {
  Pair p;
  GradManager gm;
  gm.attach(p.a);
  GradScaler scaler({.init_scale = 1024});
  const Tensor ten = from_values({10.0F, 100.0F}, {2}).astype(DType::kF16);
  gm.record();
  const std::vector<Tensor> losses = {sum(p.a.astype(DType::kF16)), p.a * p.b};
  scaler.backward(gm, losses, std::vector<Tensor>{Tensor(), ten});
  EXPECT_EQ(grad_of(p.a), (std::vector<float>{31, 401}));
}

// Gradients stay f32 where everything else is cast: 1 + 2^-20 has no exact 16-bit value.
TEST(GradManager, AddsInF32InARegion) {
  const Tensor x = ones({1});
  GradManager gm;
  gm.attach(x);
  const Autocast region({.level = Level::kO3, .lower = DType::kF16});
  for (int i = 0; i < 2; ++i) {
    gm.record();
    const Autocast exact(DType::kF16, false);
    const Tensor y = x * (i == 0 ? 1 : 0x1p-20);
    const Autocast again({.level = Level::kO3, .lower = DType::kF16});
    gm.backward(y);
  }
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
  EXPECT_EQ(grad_of(x), std::vector<float>{1 + 0x1p-20F});
}

}  // namespace
}  // namespace mezzo::amp
