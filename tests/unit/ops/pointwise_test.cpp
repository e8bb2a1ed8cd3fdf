// Tests accuracy over the whole range of f32, and behaviour at its ends.
#include "mezzo/ops/pointwise.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr float kMost = std::numeric_limits<float>::max();

// Floats of both signs, spread evenly over their bit patterns: normal and subnormal values,
// infinities and NaN.
const Tensor& all_magnitudes() {
  static const Tensor kValues = [] {
    Floats values;
    for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 9973) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    }
    return from_values(values, {static_cast<std::int64_t>(values.size())});
  }();
  return kValues;
}

// The error in units in the last place of the correctly rounded f32 result.
double ulps(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(rounded) || std::isnan(got)) {
    return std::isnan(rounded) && std::isnan(got) ? 0 : kFar;
  }
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return kFar;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(got) - want) / unit;
}

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> compute;
  double (*exact)(double);
  double ulps;  // the largest error, in units in the last place
};

double exact_gelu(double x) {
  if (std::isinf(x)) return x > 0 ? x : 0;
  return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

// The tanh form expressed by the logistic function, which has no cancellation for negative x.
double exact_gelu_tanh(double x) {
  if (std::isinf(x)) return x > 0 ? x : 0;
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * std::numbers::sqrt2;
  return x / (1 + std::exp(-std::numbers::sqrt2 * scale * (x + 0.044715 * x * x * x)));
}

double exact_silu(double x) {
  if (std::isinf(x)) return x > 0 ? x : 0;
  return x / (1 + std::exp(-x));
}

// The name that googletest looks for.
void PrintTo(  // NOLINT(readability-identifier-naming)
    const Function& function, std::ostream* out) {
  *out << function.name;
}

class Accuracy : public testing::TestWithParam<Function> {};

TEST_P(Accuracy, HoldsOverTheWholeRange) {
  const Function& function = GetParam();
  const Tensor& x = all_magnitudes();
  const Tensor y = function.compute(x);
  const float* in = x.data<float>();
  const float* out = y.data<float>();
  double worst = 0;
  float at = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double error = ulps(out[i], function.exact(in[i]));
    if (error > worst) {
      worst = error;
      at = in[i];
    }
  }
  RecordProperty("ulps", std::to_string(worst));
  EXPECT_LE(worst, function.ulps) << "at " << at;
}

INSTANTIATE_TEST_SUITE_P(
    Pointwise, Accuracy,
    testing::Values(Function{"exp", exp, [](double x) { return std::exp(x); }, 1},
                    Function{"log", log, [](double x) { return std::log(x); }, 1},
                    Function{"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.5},
                    Function{"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); },
                             2.5},
                    Function{"tanh", tanh, [](double x) { return std::tanh(x); }, 1.5},
                    Function{"gelu", [](const Tensor& x) { return gelu(x); }, exact_gelu, 5},
                    Function{"pow_2", [](const Tensor& x) { return pow(x, 2); },
                             [](double x) { return x * x; }, 0.5},
                    Function{"pow_third", [](const Tensor& x) { return pow(x, 1.0 / 3); },
                             [](double x) { return std::pow(x, 1.0 / 3); }, 1},
                    Function{"pow_minus_half", [](const Tensor& x) { return pow(x, -0.5); },
                             [](double x) { return std::pow(x, -0.5); }, 1.5}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

Floats values_of(Tensor (*function)(const Tensor&), const Floats& x) {
  return function(from_values(x, {static_cast<std::int64_t>(x.size())})).to_vector<float>();
}

TEST(Pointwise, ExpAtTheEnds) {
  const Floats y = values_of(exp, {0, -0.0F, kInf, -kInf, 88.8F, -104, 88.72F, -100, kTiny});
  EXPECT_THAT(y,
              testing::ElementsAre(1, 1, kInf, 0, kInf, 0, std::exp(88.72F), std::exp(-100.0F), 1));
  EXPECT_TRUE(std::isnan(values_of(exp, {kNan})[0]));
}

TEST(Pointwise, LogAtTheEnds) {
  const Floats y = values_of(log, {1, 0, -0.0F, kInf, kTiny, kMost});
  EXPECT_THAT(y, testing::ElementsAre(0, -kInf, -kInf, kInf, std::log(kTiny), std::log(kMost)));
  for (const float v : values_of(log, {-1, -kTiny, -kInf, kNan})) EXPECT_TRUE(std::isnan(v));
}

TEST(Pointwise, SigmoidAndTanhSaturate) {
  EXPECT_THAT(values_of(sigmoid, {0, kInf, -kInf, kMost, -kMost}),
              testing::ElementsAre(0.5F, 1, 0, 1, 0));
  EXPECT_THAT(values_of(tanh, {0, kInf, -kInf, kMost, -kMost, kTiny}),
              testing::ElementsAre(0, 1, -1, 1, -1, kTiny));
  EXPECT_TRUE(std::signbit(values_of(tanh, {-0.0F})[0]));
  EXPECT_TRUE(std::isnan(values_of(tanh, {kNan})[0]));
  EXPECT_TRUE(std::isnan(values_of(sigmoid, {kNan})[0]));
}

// Unlike x * (1 + erf(x)) / 2 in f32, which is 0 for x below -5.5.
TEST(Pointwise, GeluKeepsItsTail) {
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    const auto exact = form == GeluForm::kExact ? exact_gelu : exact_gelu_tanh;
    for (const float x : {-1.0F, -3.0F, -6.0F, -8.0F, -10.0F, 0.5F, 4.0F}) {
      const double want = exact(x);
      const double got = gelu(from_values({x}, {1}), form).item();
      // The tanh form's argument is rounded once, and the exponential amplifies that error.
      EXPECT_NEAR(got, want, std::abs(want) * (form == GeluForm::kExact ? 4e-7 : 2e-5)) << x;
    }
    const auto ends = gelu(from_values({kInf, -kInf, kMost, -kMost, kNan}, {5}), form);
    const Floats y = ends.to_vector<float>();
    EXPECT_EQ(y[0], kInf);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], kMost);
    EXPECT_EQ(y[3], 0);
    EXPECT_TRUE(std::isnan(y[4]));
  }
}

// Below -87 the logistic function is subnormal, and x multiplies its rounding error.
TEST(Pointwise, SiluIsCloseOverTheWholeRange) {
  const Tensor& x = all_magnitudes();
  const Tensor y = silu(x);
  const float* in = x.data<float>();
  const float* out = y.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double want = exact_silu(in[i]);
    if (in[i] < -87) {
      ASSERT_NEAR(out[i], want, 0x1p-142) << in[i];
    } else {
      ASSERT_LE(ulps(out[i], want), 3) << in[i];
    }
  }
}

TEST(Pointwise, SiluHasItsLimits) {
  EXPECT_THAT(values_of(silu, {0, kInf, -kInf, kMost, -kMost}),
              testing::ElementsAre(0, kInf, 0, kMost, 0));
  EXPECT_TRUE(std::isnan(values_of(silu, {kNan})[0]));
  const Tensor x = from_values({kInf, -kInf, kMost, -kMost, 120.0F, -120.0F, kNan}, {7});
  const Floats g = silu_grad(ones({7}), x).to_vector<float>();
  EXPECT_THAT(Floats(g.begin(), g.end() - 1), testing::ElementsAre(1, 0, 1, 0, 1, 0));
  EXPECT_TRUE(std::isnan(g[6]));
}

TEST(Pointwise, GradientsAreFiniteAtTheEnds) {
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    const Tensor x = from_values({kInf, -kInf, kMost, -kMost, 50.0F, -50.0F}, {6});
    const Floats g = gelu_grad(ones({6}), x, form).to_vector<float>();
    EXPECT_THAT(g, testing::ElementsAre(1, 0, 1, 0, 1, 0));
  }
}

TEST(Pointwise, PowFollowsTheRulesOfC) {
  const Floats x = {0, -0.0F, 1, -1, 2, -2, 0.5F, kInf, -kInf, kNan, kTiny, kMost};
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, -1.5, 0.3}) {
    const Floats y =
        pow(from_values(x, {static_cast<std::int64_t>(x.size())}), exponent).to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::pow(static_cast<double>(x[i]), exponent);
      EXPECT_LE(ulps(y[i], want), 1.5) << x[i] << " to the power of " << exponent;
    }
  }
}

// d/dx of sqrt at small x in f16: 1 / (2 y) would overflow before the multiplication by the
// gradient.
TEST(Pointwise, SqrtGradientInF16ScalesFirst) {
  const Tensor x = full({1}, 0x1p-24, DType::kF16).set_requires_grad(true);
  sqrt(x).backward(full({1}, 0x1p-8, DType::kF16));
  EXPECT_EQ(x.grad().item(), 0x1p-8 / 2 / 0x1p-12);
}

TEST(Pointwise, SixteenBitResultsAreRoundedOnce) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Floats values;
    for (int i = -400; i <= 400; ++i) values.push_back(static_cast<float>(i) / 64);
    const Tensor x = from_values(values, {801}).astype(dtype);
    const Tensor y = gelu(x);
    const Tensor wide = gelu(x.astype(DType::kF64)).astype(DType::kF32).astype(dtype);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<float>(), wide.to_vector<float>()) << name_of(dtype);
  }
}

// The results equal those of f32 followed by a cast, which graph mode assumes of every kernel.
TEST(Pointwise, SixteenBitResultsOfTheReferenceAreTheRoundedF32Ones) {
  std::vector<Float16> values;
  for (int bits = 0; bits < 0x7c00; ++bits) {
    values.push_back(Float16::from_bits(static_cast<std::uint16_t>(bits)));
    values.push_back(Float16::from_bits(static_cast<std::uint16_t>(bits | 0x8000)));
  }
  const Tensor x = from_values(values, {static_cast<std::int64_t>(values.size())});
  const Tensor wide = x.astype(DType::kF32);
  disable_kernels({"cpu_simd"});
  for (Tensor (*function)(const Tensor&) : {exp, sigmoid, tanh}) {
    EXPECT_TRUE(function(x).to_vector<float>() ==
                function(wide).astype(DType::kF16).to_vector<float>());
  }
  disable_kernels({});
}

// 1 - s(x) in f32 is a multiple of 2^-24, so few bits are left for x of at least 4.
TEST(Pointwise, GeluTanhGradientKeepsItsBits) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * std::numbers::sqrt2;
  for (double x = -4; x <= 7; x += 0.03125) {  // exact in f32
    const double e = std::exp(-std::numbers::sqrt2 * scale * (x + 0.044715 * x * x * x));
    const double s = 1 / (1 + e);
    const double want =
        s + x * s * s * e * std::numbers::sqrt2 * scale * (1 + 3 * 0.044715 * x * x);
    const Tensor at = full({1}, x);
    const double got = gelu_grad(ones({1}), at, GeluForm::kTanh).item();
    EXPECT_NEAR(got, want, 4 * 0x1p-24) << x;
  }
}

}  // namespace
}  // namespace mezzo
