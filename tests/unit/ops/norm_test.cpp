// Tests batch normalisation beyond the sweep: difficult statistics, fusion, running statistics,
// threads.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/batch_norm_grad.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using Doubles = std::vector<double>;

// Normally distributed values around `mean`.
Tensor random(const Shape& shape, float mean = 0, float deviation = 1, std::uint64_t seed = 1) {
  const Tensor x =
      empty(shape, DType::kF32, shape.rank() == 4 ? Format::kChannelsLast : Format::kContiguous);
  fill_normal({x.mutable_data<float>(), static_cast<std::size_t>(x.numel())}, {seed, 0}, mean,
              deviation);
  return x;
}

struct Moments {
  Doubles mean;
  Doubles var;
};

// The statistics of x per channel, in double, in two passes.
Moments moments_of(const Tensor& x) {
  const auto values = x.to_vector<double>();
  const auto channels = static_cast<std::size_t>(x.size(1));
  const std::size_t inner = values.size() / static_cast<std::size_t>(x.size(0)) / channels;
  const double count = static_cast<double>(values.size()) / static_cast<double>(channels);
  Moments moments{Doubles(channels), Doubles(channels)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    moments.mean[i / inner % channels] += values[i] / count;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = values[i] - moments.mean[i / inner % channels];
    moments.var[i / inner % channels] += off * off / count;
  }
  return moments;
}

// A mean is rounded to f32 once. A variance of n values is a sum in two levels of at most 256 terms
// each and a few more. A bad shift could lose five bits; in these tests none does.
void expect_moments(const Tensor& x, const BatchNormResult& result) {
  constexpr double kUnit = 0x1p-24;
  const Moments want = moments_of(x);
  const auto mean = result.mean.to_vector<double>();
  const auto var = result.var.to_vector<double>();
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double deviation = std::sqrt(want.var[c]);
    EXPECT_NEAR(mean[c], want.mean[c], kUnit * (2 * std::abs(want.mean[c]) + 32 * deviation)) << c;
    EXPECT_NEAR(var[c], want.var[c], 64 * kUnit * want.var[c]) << c;
  }
}

TEST(BatchNorm, VarianceDoesNotCancel) {
  const Tensor far = random({8, 5, 13, 11}, 1000, 1);
  expect_moments(far, batch_norm(far, {}, {}));
  const Tensor bf16 = random({8, 5, 13, 11}, 100, 1).astype(DType::kBf16);
  expect_moments(bf16, batch_norm(bf16, {}, {}));
  const Tensor f16 = random({8, 5, 13, 11}, 1000, 1).astype(DType::kF16);
  expect_moments(f16, batch_norm(f16, {}, {}));
}

TEST(BatchNorm, AFirstPixelFarOffDoesNotSpoilTheVariance) {
  const Tensor x = random({4, 3, 64, 64});
  float* data = x.mutable_data<float>();
  for (std::int64_t c = 0; c < 3; ++c) data[c] = 3000;
  expect_moments(x, batch_norm(x, {}, {}));
}

TEST(BatchNorm, AConstantChannelHasNoVariance) {
  const Tensor x = full({6, 7}, 0.1);
  const BatchNormResult result = batch_norm(x, {}, {});
  for (const double var : result.var.to_vector<double>()) EXPECT_LE(var, 1e-15);
  for (const double y : result.y.to_vector<double>()) EXPECT_LE(std::abs(y), 1e-4);
}

TEST(BatchNorm, NotANumberShowsInItsChannelOnly) {
  const Tensor x = random({4, 3});
  x.mutable_data<float>()[4] = NAN;
  const auto y = batch_norm(x, {}, {}, {.relu = true}).y.to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 3 == 1) << i;
}

TEST(BatchNorm, StatisticsForEveryChannelCountAndThreadCount) {
  for (const std::int64_t channels : {1, 3, 16, 17, 65, 300, 1030}) {
    const Tensor x = random({9, channels, 7, 5}, 3, 2);
    const test::Threads one(1);
    const BatchNormResult alone = batch_norm(x, {}, {});
    expect_moments(x, alone);
    const test::Threads two(2);
    const BatchNormResult first = batch_norm(x, {}, {});
    const BatchNormResult second = batch_norm(x, {}, {});
    expect_moments(x, first);
    EXPECT_EQ(first.y.to_vector<float>(), second.y.to_vector<float>()) << "not repeatable";
  }
}

// Fewer rows than threads.
TEST(BatchNorm, FewRowsOfManyChannels) {
  const Tensor x = random({2, 65536}, 3, 2).set_requires_grad(true);
  const test::Threads four(4);
  const BatchNormResult result = batch_norm(x, {}, {});
  expect_moments(x, result);
  result.y.backward(random({2, 65536}));
  for (const float g : x.grad().to_vector<float>()) ASSERT_TRUE(std::isfinite(g));
}

TEST(BatchNorm, TheFusedReluIsBitForBitReluOfTheResult) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor x = random({4, 17, 6, 5}).astype(dtype);
    const Tensor fused = batch_norm(x, {}, {}, {.relu = true}).y;
    EXPECT_EQ(fused.to_vector<float>(), relu(batch_norm(x, {}, {}).y).to_vector<float>());
  }
}

struct Outcome {
  Doubles y, grad_x, grad_weight, grad_bias, grad_residual;
};

// One forward and backward pass in f32, fused or as single operations.
Outcome run_residual(bool fused, bool create_graph) {
  const Tensor x = random({6, 19, 5, 4}, 0.3F, 1, 1).set_requires_grad(true);
  const Tensor residual = random({6, 19, 5, 4}, 0, 1, 2).set_requires_grad(true);
  const Tensor weight = random({19}, 1, 0.2F, 3).set_requires_grad(true);
  const Tensor bias = random({19}, 0, 0.2F, 4).set_requires_grad(true);
  const Tensor y = fused ? batch_norm(x, weight, bias, {.relu = true, .residual = residual}).y
                         : relu(batch_norm(x, weight, bias).y + residual);
  const Tensor total = sum(y * random({6, 19, 5, 4}, 0, 1, 5));
  const std::vector<Tensor> grads =
      grad({&total, 1}, std::vector<Tensor>{x, weight, bias, residual}, {},
           {.create_graph = create_graph});
  return {y.to_vector<double>(), grads[0].to_vector<double>(), grads[1].to_vector<double>(),
          grads[2].to_vector<double>(), grads[3].to_vector<double>()};
}

void expect_near(const Doubles& got, const Doubles& want, double allowed, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], allowed * std::max(1.0, std::abs(want[i]))) << what << ' ' << i;
  }
}

TEST(BatchNorm, FusedResidualIsTheCompositionAndBothGradientPathsAgree) {
  // 120 values per channel of order 1, with a dozen roundings each.
  constexpr double kAllowed = 0x1p-24 * 16 * 11;
  const Outcome separate = run_residual(false, false);
  for (const bool create_graph : {false, true}) {
    const Outcome fused = run_residual(true, create_graph);
    expect_near(fused.y, separate.y, kAllowed, "y");
    expect_near(fused.grad_x, separate.grad_x, kAllowed, "grad_x");
    expect_near(fused.grad_weight, separate.grad_weight, 4 * kAllowed, "grad_weight");
    expect_near(fused.grad_bias, separate.grad_bias, 4 * kAllowed, "grad_bias");
    expect_near(fused.grad_residual, separate.grad_residual, 0, "grad_residual");
  }
}

TEST(BatchNorm, TheRecomputedMaskIsTheSignOfTheResult) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const Tensor x = random({16, 33, 9, 9}).astype(dtype);
    const Tensor weight = random({33}, 1, 0.3F, 2);
    const Tensor bias = random({33}, 0, 0.3F, 3);
    const BatchNormResult result = batch_norm(x, weight, bias, {.relu = true});
    const Tensor grad = full(x.shape(), 1, dtype);
    const BatchNormAttrs attrs{.relu = true};
    const BatchNormGrads grads =
        batch_norm_grad(grad, {x, weight, bias, result.mean, result.var, {}, {}}, attrs);
    // With a gradient of 1 everywhere, grad_bias counts the positions where the ReLU is open.
    const Tensor open = sum(relu_grad(grad, result.y).astype(DType::kF32), {0, 2, 3});
    EXPECT_EQ(grads.bias.to_vector<float>(), open.to_vector<float>());
  }
}

TEST(BatchNorm, TwoGradientsAreAddedAsACallOfItsOwnAddsThem) {
  static const OpDef& op = *find_op("batch_norm_grad");
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const Shape& shape : {Shape{7, 33, 5, 3}, Shape{16, 64, 4, 4}, Shape{37, 130}}) {
      const std::int64_t channels = shape[1];
      const Tensor x = random(shape, 0, 1, 4).astype(dtype);
      const Tensor y = random(shape, 0, 1, 5).astype(dtype);
      const Tensor first = random(shape, 0, 1, 6).astype(dtype);
      const Tensor second = random(shape, 0, 0.1F, 7).astype(dtype);
      const Tensor weight = random({channels}, 1, 0.3F, 2);
      const Tensor bias = random({channels}, 0, 0.3F, 3);
      const Tensor mean = zeros({channels});
      const Tensor var = ones({channels});
      const Attrs attrs = BatchNormAttrs{.relu = true};
      const Tensor sum = first + second;
      const Outputs want = call(op, {&sum, &x, &weight, &bias, &mean, &var, &y}, attrs);
      const Outputs got = call(op, {&first, &x, &weight, &bias, &mean, &var, &y, &second}, attrs);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(got[i].to_vector<double>() == want[i].to_vector<double>())
            << name_of(dtype) << ' ' << channels << " channels, result " << i;
      }
    }
  }
}

TEST(BatchNorm, AResidualWithoutReluIsAdded) {
  const Tensor x = random({4, 3});
  const Tensor residual = random({4, 3}, 0, 1, 2);
  EXPECT_EQ(batch_norm(x, {}, {}, {.residual = residual}).y.to_vector<float>(),
            (batch_norm(x, {}, {}).y + residual).to_vector<float>());
}

TEST(BatchNorm, FourDimensionsComeOutChannelsLast) {
  const Tensor x = zeros({2, 3, 4, 5}, DType::kBf16);
  const BatchNormResult result = batch_norm(x, {}, {});
  EXPECT_EQ(result.y.format(), Format::kChannelsLast);
  EXPECT_EQ(result.y.dtype(), DType::kBf16);
  EXPECT_EQ(result.mean.dtype(), DType::kF32);
}

TEST(BatchNorm, SavesNoCopyBeyondItsInputAndResult) {
  const Tensor x = random({8, 64, 14, 14}).astype(DType::kBf16);
  const Tensor leaf = x.detach().set_requires_grad(true);
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  const Tensor y = batch_norm(leaf, {}, {}, {.relu = true}).y;
  const std::int64_t held = cpu_allocator().stats().live_bytes - before;
  EXPECT_LE(held, static_cast<std::int64_t>(y.bytes()) * 9 / 8 + 4096);
}

// The results of a backward pass, and the number of memory blocks that it allocates.
struct BackwardPass {
  std::vector<float> grad_x;
  std::vector<float> grad_residual;
  std::uint64_t allocations;
};

// A backward pass of a batch normalisation between other operations; nobody else uses its input and
// gradient.
BackwardPass pass_through(DType dtype, bool has_residual, bool retain_graph) {
  const Tensor leaf = random({4, 24, 5, 5}).astype(dtype).set_requires_grad(true);
  const Tensor side = random({4, 24, 5, 5}, 0, 1, 2).astype(dtype).set_requires_grad(true);
  const Tensor probe = random({4, 24, 5, 5}, 0, 1, 3).astype(dtype);
  const Tensor residual = has_residual ? add(side, probe) : Tensor();
  const Tensor y = batch_norm(add(leaf, probe), {}, {}, {.relu = true, .residual = residual}).y;
  const Tensor loss = sum(y * probe);
  const std::uint64_t before = cpu_allocator().stats().allocations;
  loss.backward({}, retain_graph);
  const std::uint64_t allocations = cpu_allocator().stats().allocations - before;
  return {leaf.grad().to_vector<float>(),
          has_residual ? side.grad().to_vector<float>() : std::vector<float>{}, allocations};
}

TEST(BatchNorm, GradientsAreWrittenOverWhatNobodySees) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
    for (const bool has_residual : {false, true}) {
      const BackwardPass retained = pass_through(dtype, has_residual, true);
      const BackwardPass freed = pass_through(dtype, has_residual, false);
      EXPECT_EQ(freed.grad_x, retained.grad_x) << name_of(dtype);
      EXPECT_EQ(freed.grad_residual, retained.grad_residual) << name_of(dtype);
      // The memory of the result's gradient is reused in either case, that of a retained x is not.
      // If the residual's gradient has taken the former, grad_x needs its own memory.
      EXPECT_EQ(freed.allocations + (has_residual ? 1 : 0), retained.allocations) << name_of(dtype);
    }
  }
}

TEST(BatchNorm, GradientsAreNotWrittenOverWhatOthersSee) {
  const Tensor x = random({4, 24, 5, 5}).set_requires_grad(true);
  const Tensor side = random({4, 24, 5, 5}, 0, 1, 2).set_requires_grad(true);
  const Tensor grad = random({4, 24, 5, 5}, 0, 1, 3);
  const auto x_before = x.to_vector<float>();
  const auto grad_before = grad.to_vector<float>();
  batch_norm(x, {}, {}, {.relu = true, .residual = side}).y.backward(grad);
  batch_norm(x, {}, {}, {.relu = true}).y.backward(grad);
  EXPECT_EQ(x.to_vector<float>(), x_before);
  EXPECT_EQ(grad.to_vector<float>(), grad_before);
}

// A result with `readers` readers: the gradients of x, of the weight and of the residual, and the
// sums that the backward pass computed.
struct SharedNorm {
  std::vector<Tensor> grads;
  int sums = 0;
};

class CountSums final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    count += std::string_view(work.op) == "add" ? 1 : 0;
  }
  int count = 0;

 private:
  ListenToKernels guard_{*this};
};

// Uses backward(), which leaves the last sum to the norm, or grad(), which may request the sum.
SharedNorm run_shared_norm(DType dtype, int readers, bool by_backward) {
  const Tensor inputs[] = {cast(random({3, 17, 4, 5}), dtype), random({17}, 1, 0.5F, 2),
                           cast(random({3, 17, 4, 5}, 0, 1, 3), dtype)};
  for (const Tensor& input : inputs) Tensor(input).set_requires_grad(true);
  const Tensor y = batch_norm(inputs[0], inputs[1], {}, {.relu = true, .residual = inputs[2]}).y;
  Tensor loss;
  for (int i = 0; i < readers; ++i) {
    const Tensor term = sum(cast(y * random(y.shape(), 0, 1, 10 + i), DType::kF32));
    loss = loss.defined() ? loss + term : term;
  }
  SharedNorm result;
  const CountSums sums;
  if (by_backward) {
    loss.backward();
    for (const Tensor& input : inputs) result.grads.push_back(input.grad());
  } else {
    result.grads = grad({&loss, 1}, inputs);
  }
  result.sums = sums.count;
  return result;
}

TEST(BatchNorm, AddsTheLastTwoGradientsOfItsResultItself) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const int readers : {1, 2, 3, 4}) {
      const SharedNorm joined = run_shared_norm(dtype, readers, true);
      const SharedNorm added = run_shared_norm(dtype, readers, false);
      EXPECT_EQ(added.sums - joined.sums, readers > 1 ? 1 : 0) << readers;
      for (std::size_t i = 0; i < added.grads.size(); ++i) {
        EXPECT_EQ(joined.grads[i].to_vector<float>(), added.grads[i].to_vector<float>())
            << name_of(dtype) << ", " << readers << " readers, gradient " << i;
      }
    }
  }
}

TEST(BatchNorm, InferenceUsesTheRunningStatistics) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  const BatchNormOptions options{.training = false,
                                 .eps = 0,
                                 .running_mean = from_values({1.0F, 0.0F}, {2}),
                                 .running_var = from_values({4.0F, 0.25F}, {2})};
  const BatchNormResult result = batch_norm(x, {}, {}, options);
  EXPECT_EQ(result.y.to_vector<float>(), (std::vector<float>{0, 4, 1, 8}));
  EXPECT_FALSE(result.mean.defined());
}

TEST(RunningStats, MoveByTheMomentumWithTheUnbiasedVariance) {
  const Tensor mean = from_values({1.0F, 2.0F}, {2});
  const Tensor var = from_values({1.0F, 1.0F}, {2});
  update_running_stats(mean, var, from_values({3.0F, 2.0F}, {2}), from_values({3.0F, 6.0F}, {2}),
                       0.25, 4);
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{1.5F, 2.0F}));
  EXPECT_EQ(var.to_vector<float>(), (std::vector<float>{1.75F, 2.75F}));  // 3 * 4 / 3, 6 * 4 / 3
  // A network in f64 keeps them in f64.
  const Tensor wide_mean = from_values<double>({1, 2}, {2});
  const Tensor wide_var = from_values<double>({1, 4}, {2});
  update_running_stats(wide_mean, wide_var, from_values<double>({3, 2}, {2}),
                       from_values<double>({3, 6}, {2}), 0.25, 3);
  EXPECT_EQ(wide_mean.to_vector<double>(), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(wide_var.to_vector<double>(), (std::vector<double>{1.875, 5.25}));
  EXPECT_THAT(message_of([&] { update_running_stats(mean, var, mean, var, 0.1, 1); }),
              testing::HasSubstr("which have no variance"));
  EXPECT_THAT(message_of([&] { update_running_stats(mean, var, mean, zeros({3}), 0.1, 2); }),
              testing::HasSubstr("must be dense and f32[2], or all in f64, one is f32[3]"));
}

}  // namespace
}  // namespace mezzo
