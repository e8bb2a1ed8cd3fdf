// Tests Winograd's method for 3x3 kernels against plain sums.
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/winograd/conv2d_winograd.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/plain_grad_weight.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/ops/winograd_bound.h"

namespace mezzo {
namespace {

using kernels::conv::run_winograd;
using kernels::conv::run_winograd_grad_input;
using kernels::conv::run_winograd_grad_weight;
using test::random_tensor;
using test::WinogradTransforms;

// The result, or an undefined tensor if Winograd's method did not compute it.
Tensor by_winograd(const char* op, std::initializer_list<const Tensor*> inputs,
                   const Attrs& attrs) {
  const test::SeeKernel see("conv2d");
  const Tensor result = call(*find_op(op), Inputs(inputs.begin(), inputs.size()), attrs)[0];
  return see.kernel == "cpu_winograd" ? result : Tensor();
}

// Values rounded to that dtype, as f32: the inputs of the sums.
Tensor widened(const Tensor& x) { return cast(x, DType::kF32); }

// One element of the convolution of x with the weight.
double plain_sum(const Tensor& x, const Tensor& weight, const Sides& padding, const Shape& at) {
  const Shape& s = x.shape();
  double sum = 0;
  for (std::int64_t i = 0; i < 9 * s[1]; ++i) {
    const std::int64_t h = at[2] - padding.top + i / 3 % 3;
    const std::int64_t w = at[3] - padding.left + i % 3;
    if (h < 0 || h >= s[2] || w < 0 || w >= s[3]) continue;
    const std::int64_t place = ((at[0] * s[1] + i / 9) * s[2] + h) * s[3] + w;
    sum += static_cast<double>(x.data<float>()[place]) * weight.data<float>()[at[1] * 9 * s[1] + i];
  }
  return sum;
}

// The number of roundings that a result goes through: products and sums of two transforms along two
// axes (six values each), `terms` products that are added up, the third transform and the bias.
double roundings(std::int64_t terms) { return static_cast<double>(terms) + 3 * 2 * 2 * 6 + 1; }

// The error of rounding a result to the dtype at the end.
double last_rounding(DType dtype, double value) {
  if (dtype == DType::kF32) return 0;
  const bool is_f16 = dtype == DType::kF16;
  return (is_f16 ? 0x1p-11 : 0x1p-8) * std::abs(value) + (is_f16 ? 0x1p-25 : 0);
}

// The weight of the convolution that computes the gradient with respect to x, and its padding.
Tensor turned(const Tensor& weight) {
  const Shape& s = weight.shape();
  Tensor result = empty({s[1], s[0], 3, 3});
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    const std::int64_t o = i / (9 * s[1]);
    const std::int64_t c = i / 9 % s[1];
    result.mutable_data<float>()[(c * s[0] + o) * 9 + 8 - i % 9] = weight.data<float>()[i];
  }
  return result;
}
Sides turned(const Sides& padding) {
  return {2 - padding.top, 2 - padding.bottom, 2 - padding.left, 2 - padding.right};
}

constexpr int kTile = WinogradTransforms::kResults;

// The expected result of a convolution.
struct Expected {
  Tensor x, weight;  // f32
  Sides padding;
  Tensor bias{};

  // Checks the tile of `got` that begins at `first`.
  void expect_tile(const Tensor& got, const Shape& first) const {
    const test::Matrix bound = test::winograd_bound(x, weight, padding, first);
    const Shape& s = got.shape();
    const std::vector<float> values = slice(got, 0, first[0], first[0] + 1).to_vector<float>();
    const double added = bias.defined() ? bias.data<float>()[first[1]] : 0.0;
    for (int i = 0; i < kTile * kTile; ++i) {
      const Shape at{first[0], first[1], first[2] + i / kTile, first[3] + i % kTile};
      if (at[2] >= s[2] || at[3] >= s[3]) continue;
      const double wanted = plain_sum(x, weight, padding, at) + added;
      const double before_rounding =
          roundings(x.size(1)) * 0x1p-24 * (bound(i / kTile, i % kTile) + std::abs(added));
      ASSERT_NEAR(values[(at[1] * s[2] + at[2]) * s[3] + at[3]], wanted,
                  before_rounding + last_rounding(got.dtype(), wanted))
          << concat(at);
    }
  }

  // Checks every 29th channel of the last image.
  void expect_near(const Tensor& got) const {
    const Shape& s = got.shape();
    for (std::int64_t o = 0; o < s[1]; o += 29) {
      for (std::int64_t row = 0; row < s[2]; row += kTile) {
        for (std::int64_t column = 0; column < s[3]; column += kTile) {
          expect_tile(got, {s[0] - 1, o, row, column});
        }
      }
    }
  }
};

// Checks the weight gradient for some pairs of channels.
void expect_weight_near(const Tensor& got, const Tensor& grad, const Tensor& x,
                        const Conv2dAttrs& conv) {
  const Tensor wide_grad = cast(grad, DType::kF64);
  const Tensor wide_x = cast(x, DType::kF64);
  const std::vector<float> values = got.to_vector<float>();
  const std::int64_t tiles = x.size(0) * ((x.size(2) + 3) / 4) * ((x.size(3) + 3) / 4);
  for (std::int64_t i = 0; i < got.numel(); i += 9 * 509) {
    const Shape first = test::place_of_weight(got.shape(), i);
    const test::Matrix bound =
        test::winograd_weight_bound(grad, x, conv.padding, first[0], first[1]);
    for (int tap = 0; tap < 9; ++tap) {
      const Shape at{first[0], first[1], tap / 3, tap % 3};
      const double wanted = test::plain_grad_weight(conv, wide_grad, wide_x, at).value;
      ASSERT_NEAR(
          values[i + tap], wanted,
          roundings(tiles) * 0x1p-24 * bound(tap / 3, tap % 3) + last_rounding(got.dtype(), wanted))
          << concat(at);
    }
  }
}

struct WinogradCase {
  std::int64_t n, in, out, height, width;
  Sides padding{1, 1, 1, 1};

  Shape result_shape() const {
    return {n, out, height + padding.top + padding.bottom - 2,
            width + padding.left + padding.right - 2};
  }
};
// Whole tiles and tiles of fewer results, one to three along either axis, and partial vectors.
// Maximum padding and none. Weight gradients that are computed in parts, of tiles and of outputs.
// Images, and parts of them, without a whole tile.
constexpr WinogradCase kCases[] = {{8, 64, 64, 16, 16},
                                   {9, 64, 96, 15, 17},
                                   {7, 128, 64, 14, 21},
                                   {17, 32, 48, 15, 18},
                                   {16, 48, 64, 7, 7},
                                   {3, 96, 136, 9, 13},
                                   {5, 24, 41, 10, 12, {0, 0, 0, 0}},
                                   {3, 33, 47, 9, 18, {2, 0, 1, 2}},
                                   {16, 1600, 48, 8, 8},
                                   {3, 24, 24, 3, 40},
                                   {1, 128, 136, 3, 20},
                                   {1, 24, 24, 5, 1024}};

bool is_taken(DType dtype) {
  if (!has_vectors()) return false;
  return dtype != DType::kBf16 || !cpu_features().amx_bf16;
}

// The kernel's result for a call, whether or not it is the fastest for it.
Tensor made_by(void (*run)(const KernelArgs&), std::initializer_list<const Tensor*> inputs,
               const Shape& shape, DType dtype, const Attrs& attrs) {
  Tensor result = empty(shape, dtype, Format::kChannelsLast);
  run({Inputs(inputs.begin(), inputs.size()), {&result, 1}, attrs});
  return result;
}

class ConvWinograd : public testing::TestWithParam<DType> {};

TEST_P(ConvWinograd, ResultsAndGradientsAreWithinTheBoundOfItsTransforms) {
  const DType dtype = GetParam();
  if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  for (const WinogradCase& c : kCases) {
    SCOPED_TRACE(concat(c.result_shape()));
    const Tensor x = random_tensor({c.n, c.in, c.height, c.width}, 1, dtype);
    const Tensor weight = random_tensor({c.out, c.in, 3, 3}, 2, dtype);
    const Tensor bias = random_tensor({c.out}, 4, dtype);
    const Tensor grad = random_tensor(c.result_shape(), 3, dtype);
    const Conv2dAttrs conv{.padding = c.padding};
    const Tensor y = made_by(run_winograd, {&x, &weight, &bias}, c.result_shape(), dtype, conv);
    Expected{widened(x), widened(weight), c.padding, widened(bias)}.expect_near(y);

    const Conv2dGradAttrs by_x{conv, {c.height, c.width}};
    const Tensor grad_x =
        made_by(run_winograd_grad_input, {&grad, &weight}, x.shape(), dtype, by_x);
    Expected{widened(grad), turned(widened(weight)), turned(c.padding)}.expect_near(grad_x);

    for (const DType result : {dtype, DType::kF32}) {
      const Conv2dGradAttrs by_weight{conv, 3, result == DType::kF32};
      const Tensor grad_weight =
          made_by(run_winograd_grad_weight, {&grad, &x}, weight.shape(), result, by_weight);
      expect_weight_near(grad_weight, widened(grad), widened(x), conv);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvWinograd,
                         testing::Values(DType::kF32, DType::kF16, DType::kBf16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// Includes weight gradients that are computed in parts of tiles or outputs, one thread each.
TEST(ConvWinogradThreads, GiveTheSameBitsHoweverManyThereAre) {
  if (!is_taken(DType::kF32)) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  for (const WinogradCase& c : {WinogradCase{9, 40, 56, 15, 17}, WinogradCase{26, 40, 56, 15, 17},
                                WinogradCase{2, 96, 136, 15, 17}}) {
    const Tensor x = random_tensor({c.n, c.in, 15, 17}, 1);
    const Tensor weight = random_tensor({c.out, c.in, 3, 3}, 2);
    const Tensor grad = random_tensor({c.n, c.out, 15, 17}, 3);
    const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
    const Tensor none;
    const auto results = [&](int threads) {
      const test::Threads use(threads);
      return std::vector{
          by_winograd("conv2d", {&x, &weight, &none}, conv).to_vector<float>(),
          by_winograd("conv2d_grad_input", {&grad, &weight}, Conv2dGradAttrs{conv, {15, 17}})
              .to_vector<float>(),
          by_winograd("conv2d_grad_weight", {&grad, &x}, Conv2dGradAttrs{conv, 3})
              .to_vector<float>()};
    };
    const auto alone = results(1);
    for (const int threads : {2, 3, 7}) {
      EXPECT_TRUE(results(threads) == alone) << c.n << " images, " << threads << " threads";
    }
  }
}

TEST(ConvWinogradWeight, IsTransformedAgainWhenItChanges) {
  const NoGrad no_grad;
  const Tensor x = random_tensor({4, 32, 8, 8}, 1);
  const Tensor weight = random_tensor({32, 32, 3, 3}, 2).set_requires_grad(true);
  const Tensor other = random_tensor({32, 32, 3, 3}, 3);
  const Tensor none;
  const auto convolved = [&](const Tensor& by) {
    return call(*find_op("conv2d"), {&x, &by, &none}, Conv2dAttrs{.padding = {1, 1, 1, 1}})[0]
        .to_vector<float>();
  };
  const auto fresh = convolved(test::plain_copy(weight));
  for (int use = 0; use < 3; ++use) EXPECT_TRUE(convolved(weight) == fresh) << use;
  copy_elements(other, weight);
  for (int use = 0; use < 3; ++use) EXPECT_TRUE(convolved(weight) == convolved(other)) << use;
}

// Training reads the weight once for the convolution and once, rotated, for the gradient; it is not
// kept for that.
TEST(ConvWinogradWeight, IsKeptFromTheSecondUseOfAFormOn) {
  if (!is_taken(DType::kF32)) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const NoGrad no_grad;
  const Tensor x = random_tensor({4, 32, 8, 8}, 1);
  const Tensor weight = random_tensor({32, 32, 3, 3}, 2).set_requires_grad(true);
  const Tensor none;
  const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
  const auto kept_by = [](const auto& use) {
    const std::int64_t before = cpu_allocator().stats().live_bytes;
    use();
    return cpu_allocator().stats().live_bytes - before;
  };
  const auto forward = [&] { by_winograd("conv2d", {&x, &weight, &none}, conv); };
  const auto backward = [&] {
    by_winograd("conv2d_grad_input", {&x, &weight}, Conv2dGradAttrs{conv, {8, 8}});
  };
  EXPECT_EQ(kept_by(forward), 0);
  EXPECT_EQ(kept_by(backward), 0);
  constexpr double kGrowth = 36.0 / 9;
  EXPECT_GE(kept_by(forward), kGrowth * static_cast<double>(weight.bytes()));
  EXPECT_EQ(kept_by(forward), 0);
}

// A weight that is used once is transformed in parts if it is large. For few images, each thread
// transforms its own inputs and outputs, beside all tiles or some of them; for many images,
// outputs. A kept transform is whole.
TEST(ConvWinogradWeight, GivesTheSameBitsInParts) {
  if (!is_taken(DType::kF32)) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const NoGrad no_grad;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const std::int64_t images : {2, 20, 33}) {
      const Tensor weight = test::parameter({288, 272, 3, 3}, 2).astype(dtype);
      const Tensor bias = random_tensor({288}, 3);
      const Tensor x = random_tensor({images, 272, 11, 12}, 1, dtype);
      const Tensor grad = random_tensor({images, 288, 11, 12}, 4, dtype);
      const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
      const auto both = [&] {
        return std::pair(
            by_winograd("conv2d", {&x, &weight, &bias}, conv).to_vector<float>(),
            by_winograd("conv2d_grad_input", {&grad, &weight}, Conv2dGradAttrs{conv, {11, 12}})
                .to_vector<float>());
      };
      const auto in_parts = both();
      EXPECT_TRUE(both() == in_parts) << name_of(dtype) << ", " << images << " images";
      EXPECT_TRUE(both() == in_parts) << name_of(dtype) << ", " << images << " images";
    }
  }
}

// Where 16-bit parameters are copies of f32 ones, no memory but the transform's is needed.
TEST(ConvWinogradWeight, OfF16IsMadeFromTheF32ParameterItself) {
  if (!is_taken(DType::kF16)) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const NoGrad no_grad;
  const Tensor parameter = test::parameter({32, 32, 3, 3}, 2);
  const Tensor low = parameter.astype(DType::kF16);
  const Tensor x = random_tensor({4, 32, 8, 8}, 1, DType::kF16);
  const Tensor none;
  const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
  ASSERT_TRUE(pending_source(low).defined());
  const Tensor y = by_winograd("conv2d", {&x, &low, &none}, conv);
  EXPECT_TRUE(pending_source(low).defined());
  const Tensor rounded = test::plain_copy(parameter).astype(DType::kF16);
  EXPECT_TRUE(y.to_vector<float>() ==
              by_winograd("conv2d", {&x, &rounded, &none}, conv).to_vector<float>());
}

// Weights are read as vectors along the channels that are adjacent, rounding those of f32
// parameters on the way, or element by element.
TEST(ConvWinogradWeight, GivesTheSameBitsInEveryLayout) {
  if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const NoGrad no_grad;
  const Tensor none;
  const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const std::int64_t out : {64, 41}) {
      const Tensor x = random_tensor({2, 48, 9, 8}, 1, dtype);
      const Tensor grad = random_tensor({2, out, 9, 8}, 2, dtype);
      const Tensor numbers = random_tensor({out, 48, 3, 3}, 3);
      const Tensor plain = cast(numbers, dtype);
      const Tensor parameter = to_format(numbers, Format::kChannelsLast).set_requires_grad(true);
      const auto both = [&](const Tensor& weight) {
        const Conv2dGradAttrs by_x{conv, {9, 8}};
        return std::pair(made_by(run_winograd, {&x, &weight, &none}, grad.shape(), dtype, conv)
                             .to_vector<float>(),
                         made_by(run_winograd_grad_input, {&grad, &weight}, x.shape(), dtype, by_x)
                             .to_vector<float>());
      };
      const auto expected = both(plain);
      EXPECT_TRUE(both(to_format(plain, Format::kChannelsLast)) == expected) << name_of(dtype);
      const Tensor copy = parameter.astype(dtype);
      ASSERT_EQ(pending_source(copy).defined(), dtype != DType::kF32);
      EXPECT_TRUE(both(copy) == expected) << name_of(dtype) << ", of a parameter";
      const Tensor apart =
          transpose(to_format(transpose(plain, 0, 1), Format::kChannelsLast), 0, 1);
      EXPECT_TRUE(both(apart) == expected) << name_of(dtype) << ", inputs and outputs swapped";
    }
  }
}

// Views of one block that begin at the same element each have their own transform.
TEST(ConvWinogradWeight, OfAViewIsNotThatOfTheWhole) {
  if (!is_taken(DType::kF16)) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const NoGrad no_grad;
  const Tensor parameter = test::parameter({64, 64, 3, 3}, 2);
  const Tensor low = parameter.astype(DType::kF16);
  const Tensor x = random_tensor({4, 64, 8, 8}, 1, DType::kF16);
  const Tensor none;
  const auto convolved = [&](const Tensor& weight) {
    const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
    const Tensor y = by_winograd("conv2d", {&x, &weight, &none}, conv);
    return y.defined() ? y.to_vector<float>() : std::vector<float>();
  };
  const Tensor plain = test::plain_copy(parameter).astype(DType::kF16);
  ASSERT_FALSE(convolved(plain).empty());
  for (int use = 0; use < 3; ++use) {
    EXPECT_TRUE(convolved(low) == convolved(plain)) << use;
    EXPECT_TRUE(convolved(transpose(low, 0, 1)) == convolved(transpose(plain, 0, 1))) << use;
    for (const std::int64_t first : {0, 32}) {
      EXPECT_TRUE(convolved(slice(low, 0, first, first + 32)) ==
                  convolved(slice(plain, 0, first, first + 32)))
          << use << " from " << first;
    }
  }
  EXPECT_TRUE(pending_source(low).defined()) << "a view reads the parameter, too";
}

TEST(ConvWinogradKernel, CanBeSwitchedOff) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const Tensor x = random_tensor({8, 64, 16, 16}, 1, dtype);
    const Tensor weight = random_tensor({64, 64, 3, 3}, 2, dtype);
    const Tensor none;
    const Conv2dAttrs conv{.padding = {1, 1, 1, 1}};
    disable_kernels({"cpu_winograd"});
    EXPECT_FALSE(by_winograd("conv2d", {&x, &weight, &none}, conv).defined());
    disable_kernels({});
    EXPECT_EQ(by_winograd("conv2d", {&x, &weight, &none}, conv).defined(), is_taken(dtype));
  }
}

// Transforms of few channels, few pixels or mostly padding cost more than they save.
TEST(ConvWinogradKernel, LeavesWhatItIsSlowerForToOthers) {
  constexpr WinogradCase kLeft[] = {{64, 16, 64, 16, 16}, {1, 256, 256, 8, 8}, {16, 64, 64, 5, 5}};
  for (const WinogradCase& c : kLeft) {
    const Tensor x = random_tensor({c.n, c.in, c.height, c.width}, 1);
    const Tensor weight = random_tensor({c.out, c.in, 3, 3}, 2);
    const Tensor none;
    EXPECT_FALSE(
        by_winograd("conv2d", {&x, &weight, &none}, Conv2dAttrs{.padding = c.padding}).defined())
        << concat(c.result_shape());
  }
}

// A bf16 dot product has twice the rate of f32 multiply-adds, so more is left to it.
TEST(ConvWinogradKernel, LeavesMoreToAFastDotProduct) {
  constexpr WinogradCase kLeft[] = {{4, 64, 64, 12, 12}, {16, 64, 64, 9, 9}};
  constexpr WinogradCase kTaken[] = {
      {4, 64, 64, 16, 16}, {16, 64, 64, 14, 14}, {16, 512, 512, 7, 7}};
  const auto is_left = [](const WinogradCase& c) {
    const Tensor x = empty({c.n, c.in, c.height, c.width}, DType::kBf16, Format::kChannelsLast);
    const Tensor weight = empty({c.out, c.in, 3, 3}, DType::kBf16);
    const Tensor none;
    Tensor y = empty(c.result_shape(), DType::kBf16, Format::kChannelsLast);
    const std::array<const Tensor*, 3> inputs{&x, &weight, &none};
    const Attrs attrs = Conv2dAttrs{.padding = c.padding};
    return !kernels::conv::takes<kernels::conv::kWinograd, kernels::conv::forward_problem>(
        {inputs, {&y, 1}, attrs});
  };
  for (const WinogradCase& c : kTaken) EXPECT_EQ(is_left(c), !is_taken(DType::kBf16));
  for (const WinogradCase& c : kLeft) {
    EXPECT_EQ(is_left(c), !is_taken(DType::kBf16) || has_fast_bf16_dot())
        << concat(c.result_shape());
  }
}

}  // namespace
}  // namespace mezzo
