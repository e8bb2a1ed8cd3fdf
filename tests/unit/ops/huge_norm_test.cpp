// Tests normalisation of values whose variance overflows f32: the result is NaN, so that a loss
// computed from it is not finite.
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/group_norm.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/every_target.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

// Their squares are infinite in f32, and so is the variance.
constexpr float kHuge = 3e19F;

// A normalisation of x, and which elements of a row-major x share statistics: those with the same
// `set`.
struct HugeNorm {
  std::string name;
  Shape shape;
  std::function<Tensor(const Tensor& x)> run;
  std::function<std::size_t(std::size_t i)> set;
};

std::size_t channel_of_four_pixels(std::size_t i) { return i / 4 % 6; }

BatchNormOptions with_residual(const Tensor& x) { return {.relu = true, .residual = x * 0}; }

std::vector<HugeNorm> all_norms() {
  const Shape images{5, 6, 2, 2};
  const auto of_columns = [](std::size_t i) { return i % 6; };
  const auto of_groups = [](std::size_t i) { return i / 24 * 3 + i / 8 % 3; };
  return {
      {"batch norm of rows",
       {5, 6},
       [](const Tensor& x) { return batch_norm(x, {}, {}).y; },
       of_columns},
      {"batch norm", images, [](const Tensor& x) { return batch_norm(x, {}, {}).y; },
       channel_of_four_pixels},
      {"batch norm and ReLU", images,
       [](const Tensor& x) { return batch_norm(x, {}, {}, {.relu = true}).y; },
       channel_of_four_pixels},
      {"batch norm, residual and ReLU", images,
       [](const Tensor& x) { return batch_norm(x, {}, {}, with_residual(x)).y; },
       channel_of_four_pixels},
      {"layer norm",
       {5, 6},
       [](const Tensor& x) { return layer_norm(x, {6}); },
       [](std::size_t i) { return i / 6; }},
      {"group norm", images, [](const Tensor& x) { return group_norm(x, 3); }, of_groups},
      {"instance norm", images, [](const Tensor& x) { return group_norm(x, 6); },
       [](std::size_t i) { return i / 4; }},
  };
}

// Values around 1, with large ones of both signs in the same statistics as element 8.
Tensor with_huge_set(const HugeNorm& norm, DType dtype, float size) {
  const Tensor x = empty(norm.shape, DType::kF32);
  auto* const numbers = x.mutable_data<float>();
  fill_normal({numbers, static_cast<std::size_t>(x.numel())}, {3, 0}, 1, 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.numel()); ++i) {
    if (norm.set(i) == norm.set(8)) numbers[i] = (i / 6 + i) % 2 == 0 ? size : -size;
  }
  return x.astype(dtype);
}

void expect_nan_in_the_set(const HugeNorm& norm, const Floats& found, const Floats& tame) {
  ASSERT_EQ(found.size(), tame.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (norm.set(i) == norm.set(8)) {
      EXPECT_TRUE(std::isnan(found[i])) << norm.name << ' ' << i << ": " << found[i];
    } else {
      EXPECT_EQ(found[i], tame[i]) << norm.name << ' ' << i;
    }
  }
}

void expect_nan_of_all() {
  for (const HugeNorm& norm : all_norms()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      expect_nan_in_the_set(norm, norm.run(with_huge_set(norm, dtype, kHuge)).to_vector<float>(),
                            norm.run(with_huge_set(norm, dtype, 1)).to_vector<float>());
    }
  }
}

class HugeNorms : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, HugeNorms, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         test::target_name);

TEST_P(HugeNorms, TheResultIsNanWhereTheVarianceIsInfinite) { expect_nan_of_all(); }

// The plain loops, the reference and last resort, compute in f64 but use the statistics that f32
// has.
TEST(HugeNorm, ThePlainLoopsAgree) {
  disable_kernels({"cpu_channels", "cpu_rows"});
  expect_nan_of_all();
  disable_kernels({});
}

// f32 can hold the variance of the largest f16 values.
TEST_P(HugeNorms, EveryFiniteF16IsNormalised) {
  for (const HugeNorm& norm : all_norms()) {
    const Tensor y = norm.run(with_huge_set(norm, DType::kF16, 65504));
    for (const float value : y.to_vector<float>()) EXPECT_TRUE(std::isfinite(value)) << norm.name;
  }
}

TEST_P(HugeNorms, GradientsAreNanThereAndOnlyThere) {
  for (const HugeNorm& norm : all_norms()) {
    const auto gradient = [&](float size, bool create_graph) {
      const Tensor x = with_huge_set(norm, DType::kF32, size).set_requires_grad(true);
      const Tensor y = norm.run(x);
      Generator generator(5);
      const Tensor outputs[] = {sum(y * randn(norm.shape, generator))};
      return grad(outputs, std::span(&x, 1), {}, {.create_graph = create_graph})[0]
          .to_vector<float>();
    };
    for (const bool create_graph : {false, true}) {
      SCOPED_TRACE(create_graph ? "by operations" : "fused");
      expect_nan_in_the_set(norm, gradient(kHuge, create_graph), gradient(1, create_graph));
    }
  }
}

TEST(HugeNorm, AnInfiniteRunningVarianceShowsInEvaluation) {
  const Tensor x = ones({2, 3});
  const BatchNormOptions options{.training = false,
                                 .running_mean = zeros({3}),
                                 .running_var = from_values<float>({1, INFINITY, 1}, {3})};
  const Floats y = batch_norm(x, {}, {}, options).y.to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 3 == 1) << i;
}

TEST(HugeNorm, F64HasTheVariance) {
  for (const HugeNorm& norm : all_norms()) {
    const Tensor y = norm.run(with_huge_set(norm, DType::kF32, kHuge).astype(DType::kF64));
    for (const double value : y.to_vector<double>()) EXPECT_TRUE(std::isfinite(value)) << norm.name;
  }
}

// A batch that f32 cannot normalise is ignored; PyTorch's statistics stay infinite.
TEST(HugeNorm, RunningStatisticsOfOtherChannelsMove) {
  const Tensor mean = zeros({4});
  const Tensor var = ones({4});
  const Tensor batch_mean = from_values<float>({1, 2, NAN, 4}, {4});
  const Tensor batch_var = from_values<float>({2, INFINITY, 1, 2.5e38F}, {4});
  update_running_stats(mean, var, batch_mean, batch_var, 1, 2);  // the last is 5e38 when unbiased
  EXPECT_EQ(mean.to_vector<float>(), (Floats{1, 0, 0, 0}));
  EXPECT_EQ(var.to_vector<float>(), (Floats{4, 1, 1, 1}));
}

}  // namespace
}  // namespace mezzo
