#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/cpu.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::largest_difference;
using test::parameter;
using test::plain_copy;
using test::random_tensor;

TEST(Window, SamePaddingIsTensorFlows) {
  const auto same = [](std::int64_t in, std::int64_t span, std::int64_t stride) {
    return Padding2d(Padding::kSame).resolve(in, span, stride);
  };
  EXPECT_EQ(same(5, 3, 1), (Sides{1, 1, 1, 1}));
  EXPECT_EQ(same(5, 2, 1), (Sides{0, 1, 0, 1}));  // the odd row is at the bottom
  EXPECT_EQ(same(224, 7, 2), (Sides{2, 3, 2, 3}));
  EXPECT_EQ(same(6, 3, 2), (Sides{0, 1, 0, 1}));
  EXPECT_EQ(same(4, 1, 3), (Sides{0, 0, 0, 0}));  // never negative
  EXPECT_EQ(Padding2d(Padding::kValid).resolve(5, 3, 1), Sides());
  EXPECT_EQ(Padding2d(1, 2).resolve(5, 3, 1), (Sides{1, 1, 2, 2}));
}

TEST(Conv2d, SameGivesCeilOfInputOverStride) {
  for (const std::int64_t size : {5, 6, 7, 8}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      const Tensor y =
          conv2d(random_tensor({1, 2, size, size + 1}, 1), random_tensor({3, 2, 3, 2}, 2), {},
                 {.stride = stride, .padding = Padding::kSame});
      EXPECT_EQ(y.shape(), Shape({1, 3, (size + stride - 1) / stride, (size + stride) / stride}));
    }
  }
}

TEST(Conv2d, AKnownResult) {
  const Tensor x = reshape(arange(9), {1, 1, 3, 3});
  const Tensor weight = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {1, 1, 2, 2});
  const Tensor y = conv2d(x, weight, from_values({0.5F}, {1}), {.padding = Padding::kSame});
  EXPECT_EQ(y.to_vector<double>(), (Doubles{27.5, 37.5, 17.5, 57.5, 67.5, 29.5, 20.5, 23.5, 8.5}));
  EXPECT_EQ(conv2d(x, weight).to_vector<double>(), (Doubles{27, 37, 57, 67}));
}

TEST(Conv2d, IntegersAreExact) {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 52) + 1;  // not exact in f32
  const Tensor x = from_values({kOdd, std::int64_t{7}}, {1, 2, 1, 1});
  const Tensor weight = from_values({std::int64_t{1}, std::int64_t{2}}, {1, 2, 1, 1});
  EXPECT_EQ(conv2d(x, weight).to_vector<std::int64_t>()[0], kOdd + 14);
}

TEST(Conv2d, ResultsAndImageGradientsAreChannelsLast) {
  const Tensor x = parameter({2, 3, 5, 5}, 1);
  const Tensor y = conv2d(x, parameter({4, 3, 3, 3}, 2));
  EXPECT_TRUE(y.is_dense(Format::kChannelsLast));
  sum(y).backward();
  EXPECT_TRUE(x.grad().is_dense(Format::kChannelsLast));
}

TEST(Conv2d, PackedWeightsFollowInPlaceChanges) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor x = random_tensor({2, 16, 6, 6}, 1, dtype);
    const Tensor weight = parameter({32, 16, 3, 3}, 2);
    for (int change = 0; change < 3; ++change) {
      const Tensor got = conv2d(x, weight.astype(dtype));
      const Tensor again = conv2d(x, weight.astype(dtype));
      const Tensor want = conv2d(x, plain_copy(weight).astype(dtype));
      EXPECT_EQ(largest_difference(got, want), 0) << mezzo::name_of(dtype);
      EXPECT_EQ(largest_difference(again, want), 0) << mezzo::name_of(dtype);
      const NoGrad guard;
      add_into(weight, full(weight.shape(), 0.25));
    }
  }
}

TEST(Conv2d, PackedWeightsAreKeptFromTheSecondUse) {
  const Tensor x = random_tensor({2, 16, 8, 8}, 1);
  const NoGrad guard;
  conv2d(x, parameter({64, 16, 3, 3}, 2));  // creates what is created only once
  const Tensor weight = parameter({64, 16, 3, 3}, 2);
  const auto kept_by_use = [&] {
    const std::int64_t before = cpu_allocator().stats().live_bytes;
    conv2d(x, weight);
    return cpu_allocator().stats().live_bytes - before;
  };
  for (int change = 0; change < 2; ++change) {
    EXPECT_EQ(kept_by_use(), 0);
    const std::int64_t kept = kept_by_use();
    // Without vectors, oneDNN may read the weight where it is.
    const bool is_in_place = !has_vectors() && kept == 0;
    EXPECT_TRUE(is_in_place || kept == static_cast<std::int64_t>(weight.bytes())) << kept;
    EXPECT_EQ(kept_by_use(), 0);
    weight.bump_version();
    conv2d(x, weight);  // releases the stale copy
    weight.bump_version();
  }
}

TEST(Conv2d, GradientsAreTheSameWithAndWithoutPacking) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor weight = parameter({24, 8, 3, 3}, 2);
    const Tensor x = random_tensor({2, 8, 7, 7}, 1, dtype).set_requires_grad(true);
    const Tensor other = plain_copy(x).set_requires_grad(true);
    const Tensor grad = random_tensor({2, 24, 7, 7}, 3, dtype);
    conv2d(x, weight.astype(dtype), {}, {.padding = 1}).backward(grad);
    // Not a leaf: its packed form is discarded.
    conv2d(other, (weight * 1.0).astype(dtype), {}, {.padding = 1}).backward(grad);
    EXPECT_EQ(largest_difference(x.grad(), other.grad()), 0) << mezzo::name_of(dtype);
  }
}

// Batches of large images are converted to f32 some images at a time, in any layout.
TEST(Conv2d, LargeBatchesIn16BitsAreThoseOfF32RoundedOnce) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor x = random_tensor({5, 48, 96, 90}, 1, dtype);
    const Tensor weight = random_tensor({40, 48, 1, 1}, 2, dtype);
    const Tensor grad = random_tensor({5, 40, 96, 90}, 3, dtype);
    const auto run = [&](DType computed) {
      const Tensor wide_x = plain_copy(x).astype(computed).set_requires_grad(true);
      const Tensor y = conv2d(wide_x, weight.astype(computed));
      y.backward(grad.astype(computed));
      return std::pair{y.detach().astype(DType::kF32), wide_x.grad().astype(DType::kF32)};
    };
    const auto [y, grad_x] = run(dtype);
    const auto [wide_y, wide_grad_x] = run(DType::kF32);
    const double rounding = dtype == DType::kBf16 ? 0x1p-8 : 0x1p-11;
    EXPECT_LE(largest_difference(y, wide_y), test::sum_tolerance(48) + 48 * rounding);
    EXPECT_LE(largest_difference(grad_x, wide_grad_x), test::sum_tolerance(40) + 40 * rounding);
  }
}

// No copy is made where kernels pack the parameter or convert it to f32.
TEST(Conv2d, APlainBf16CopyOfAParameterIsNeverMade) {
  const Tensor weight = parameter({64, 32, 3, 3}, 1);
  const Tensor low = weight.astype(DType::kBf16);
  const Tensor x = random_tensor({2, 32, 8, 8}, 2, DType::kBf16).set_requires_grad(true);
  ASSERT_TRUE(pending_source(low).defined());
  const Tensor y = conv2d(x, low, {}, {.padding = 1});
  y.backward(random_tensor(y.shape(), 3, DType::kBf16));
  EXPECT_TRUE(pending_source(low).defined());
  EXPECT_EQ(low.to_vector<double>(), plain_copy(weight).astype(DType::kBf16).to_vector<double>());
}

// Only copies of f32 parameters are replaced by their parameters.
TEST(Conv2d, CopiesOfOtherParametersAreReadThemselves) {
  for (const auto& [from, to] :
       {std::pair(DType::kF16, DType::kBf16), std::pair(DType::kBf16, DType::kF16),
        std::pair(DType::kF64, DType::kBf16)}) {
    const Tensor weight = random_tensor({8, 8, 3, 3}, 1, from).set_requires_grad(true);
    const Tensor x = random_tensor({2, 8, 6, 6}, 2, to);
    const Tensor low = weight.astype(to);
    EXPECT_FALSE(pending_source(low).defined());
    const Tensor y = conv2d(x, low, {}, {.padding = 1});
    const Tensor want = conv2d(x, weight.detach().astype(to), {}, {.padding = 1});
    EXPECT_EQ(y.to_vector<double>(), want.to_vector<double>());
  }
}

// For a view of a copy, kernels read the parameter's elements at the same positions.
TEST(Conv2d, ViewsOfAParameterCopyAreReadAtTheirPlaces) {
  const NoGrad no_grad;
  for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
    const Tensor block = random_tensor({10, 6, 3, 3}, 1);
    const Tensor weight = to_format(slice(block, 0, 2, 10), format).set_requires_grad(true);
    const Tensor low = weight.astype(DType::kBf16);
    const auto check = [](const Tensor& view, const Tensor& want) {
      ASSERT_TRUE(pending_source(view).defined());
      EXPECT_EQ(pending_source(view).to_vector<double>(), want.to_vector<double>());
    };
    check(low, weight);
    check(slice(low, 0, 4, 8), slice(weight, 0, 4, 8));
    check(slice(low, 1, 0, 3), slice(weight, 1, 0, 3));
    check(transpose(low, 0, 1), transpose(weight, 0, 1));
    check(permute(low, {2, 0, 3, 1}), permute(weight, {2, 0, 3, 1}));
  }
}

TEST(Conv2d, ParameterGradientsAreUnroundedF32) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor weight = parameter({5, 3, 3, 3}, 1);
    const Tensor bias = parameter({5}, 4);
    const Tensor x = random_tensor({2, 3, 6, 6}, 2, dtype);
    const Tensor grad = random_tensor({2, 5, 4, 4}, 3, dtype);
    conv2d(x, weight.astype(dtype), bias).backward(grad);
    ASSERT_EQ(weight.grad().dtype(), DType::kF32);
    ASSERT_EQ(bias.grad().dtype(), DType::kF32);
    // The same operands in double.
    const Tensor wide = plain_copy(weight).astype(DType::kF64).set_requires_grad(true);
    const Tensor wide_bias = plain_copy(bias).astype(DType::kF64).set_requires_grad(true);
    conv2d(x.astype(DType::kF64), wide, wide_bias).backward(grad.astype(DType::kF64));
    EXPECT_LE(largest_difference(weight.grad(), wide.grad()), test::sum_tolerance(2 * 4 * 4));
    EXPECT_LE(largest_difference(bias.grad(), wide_bias.grad()), test::sum_tolerance(2 * 4 * 4));
    EXPECT_GT(largest_difference(weight.grad(), weight.grad().astype(dtype)), 0);
  }
}

TEST(Conv2d, F16IsF32ArithmeticRoundedOnce) {
  const Tensor x = random_tensor({2, 8, 6, 6}, 1, DType::kF16);
  const Tensor weight = random_tensor({8, 8, 3, 3}, 2, DType::kF16);
  const Tensor bias = random_tensor({8}, 3);
  const Tensor wide = conv2d(x.astype(DType::kF32), weight.astype(DType::kF32), bias);
  EXPECT_EQ(largest_difference(conv2d(x, weight, bias), wide.astype(DType::kF16)), 0);
}

TEST(Conv2d, ABiasOfAnyFloatingTypeIsAdded) {
  const Tensor x = zeros({1, 2, 3, 3}, DType::kBf16);
  const Tensor weight = zeros({2, 2, 1, 1}, DType::kBf16);
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor y = conv2d(x, weight, from_values({1.5F, -2.0F}, {2}).astype(dtype));
    EXPECT_EQ(y.to_vector<double>()[0], 1.5);
    EXPECT_EQ(y.to_vector<double>()[9], -2);
  }
}

TEST(Conv2d, ReadsAnyMemoryLayout) {
  const Tensor block = random_tensor({2, 6, 8, 9}, 1);
  const Tensor x = permute(block, {0, 3, 1, 2});  // [2, 9, 6, 8]
  const Tensor weight = permute(random_tensor({3, 3, 9, 4}, 2), {3, 2, 0, 1});
  const Tensor want = conv2d(plain_copy(x), plain_copy(weight));
  EXPECT_EQ(largest_difference(conv2d(x, weight), want), 0);
  const Tensor part = alias(block, {2, 3, 8, 9}, block.strides(), 2 * 8 * 9);
  const Tensor small = random_tensor({4, 3, 3, 3}, 3);
  EXPECT_EQ(largest_difference(conv2d(part, small), conv2d(plain_copy(part), small)), 0);
}

// The last step would lead into the memory of the next stride.
TEST(Conv2d, WeightsThatAreSlicedWithAStep) {
  struct Case {
    Shape whole;
    std::int64_t axis;
    Conv2dOptions options;
  };
  const Case cases[] = {{{8, 5, 1, 1}, 1, {}},
                        {{8, 5, 1, 1}, 1, {.stride = 2}},
                        {{64, 65, 1, 1}, 1, {}},
                        {{16, 5, 3, 3}, 1, {}},
                        {{16, 5, 3, 3}, 1, {.stride = 2}},
                        {{8, 4, 5, 2}, 2, {}},
                        {{8, 1, 2, 3}, 3, {.dilation = 2, .groups = 4}}};
  for (const DType dtype : test::kVectorDTypes) {
    for (const Case& c : cases) {
      const Tensor whole = parameter(c.whole, 1, dtype);
      const Tensor weight = slice(whole, c.axis, 0, c.whole[static_cast<std::size_t>(c.axis)], 2);
      Tensor plain = plain_copy(weight.detach());
      plain.set_requires_grad(true);
      const Tensor x = parameter({2, c.options.groups * weight.size(1), 9, 9}, 2, dtype);
      const Tensor y = conv2d(x, weight, {}, c.options);
      const Tensor same = conv2d(x, plain, {}, c.options);
      const double tolerance = test::sum_tolerance(64) + epsilon_of(dtype) * 8;
      EXPECT_LE(largest_difference(y, same), tolerance) << concat(weight);
      const Tensor factors = random_tensor(y.shape(), 3, dtype);
      const Tensor by_weight = grad({{y}}, {{whole}}, {{factors}}, {.retain_graph = true})[0];
      const Tensor want = grad({{same}}, {{plain}}, {{factors}}, {.retain_graph = true})[0];
      const Tensor part = slice(by_weight, c.axis, 0, c.whole[static_cast<std::size_t>(c.axis)], 2);
      EXPECT_EQ(largest_difference(part, want), 0) << concat(weight);
      EXPECT_LE(largest_difference(grad({{y}}, {{x}}, {{factors}})[0],
                                   grad({{same}}, {{x}}, {{factors}})[0]),
                test::sum_tolerance(1024) + epsilon_of(dtype) * 64)
          << concat(weight);
    }
  }
}

TEST(Conv2d, AGradientWithGapsIsRead) {
  const Tensor weight = parameter({4, 3, 3, 3}, 1);
  const Tensor x = parameter({2, 3, 6, 6}, 2);
  sum(conv2d(x, weight)).backward();  // the gradient is one value with strides of 0
  EXPECT_EQ(weight.grad().shape(), weight.shape());
  const Tensor again = plain_copy(weight).set_requires_grad(true);
  conv2d(plain_copy(x), again).backward(ones({2, 4, 4, 4}));
  EXPECT_EQ(largest_difference(weight.grad(), again.grad()), 0);
}

TEST(Conv2d, OneAndTwoThreadsAgree) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    std::vector<Tensor> results;
    for (const int threads : {1, 2, 1}) {
      const test::Threads guard(threads);
      const Tensor weight = parameter({16, 8, 3, 3}, 1);
      const Tensor x = random_tensor({4, 8, 9, 9}, 2, dtype);
      conv2d(x, weight.astype(dtype)).backward(random_tensor({4, 16, 7, 7}, 3, dtype));
      results.push_back(weight.grad());
    }
    EXPECT_LE(largest_difference(results[0], results[1]), test::sum_tolerance(4 * 7 * 7));
    EXPECT_EQ(largest_difference(results[0], results[2]), 0);
  }
}

TEST(Conv2d, ThreadsShareAParameter) {
  const Tensor weight = parameter({32, 16, 3, 3}, 1);
  const Tensor x = random_tensor({2, 16, 8, 8}, 2);
  const Tensor want = conv2d(x, plain_copy(weight));
  std::vector<double> differences(4, 1);
  std::vector<std::thread> threads;
  for (double& difference : differences) {
    threads.emplace_back([&] {
      difference = 0;
      for (int i = 0; i < 20; ++i) {
        difference = std::max(difference, largest_difference(conv2d(x, weight), want));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(differences, testing::Each(testing::Le(test::sum_tolerance(16 * 9))));
}

TEST(Conv2d, NoMemoryIsLeftBehind) {
  const auto live = [] { return cpu_allocator().stats().live_bytes; };
  const std::int64_t before = live();
  {
    const Tensor weight = parameter({16, 8, 3, 3}, 1);
    for (const DType dtype : test::kVectorDTypes) {
      const Tensor x = random_tensor({2, 8, 8, 8}, 2, dtype);
      sum(conv2d(x, weight.astype(dtype))).backward();
    }
  }
  EXPECT_EQ(live(), before);
}

// For few channels, oneDNN's own gathering of these pixels writes out of bounds, which malloc
// notices after some calls.
TEST(Conv2d, PointwiseGradientsAtAStrideOverFewChannels) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const std::int64_t channels : {1, 3, 7, 12}) {
      for (const Size2d stride : {Size2d(2), Size2d{1, 2}, Size2d{3, 1}}) {
        const Tensor x = ones({4, channels, 31, 32}, dtype);
        const Tensor w = ones({16, channels, 1, 1}, dtype).set_requires_grad(true);
        const Tensor y = conv2d(x, w, Tensor(), {.stride = stride});
        sum(y.astype(DType::kF32)).backward();
        const double pixels = static_cast<double>(4 * y.size(2) * y.size(3));
        const Doubles expected(w.numel(), full({1}, pixels, dtype).to_vector<double>()[0]);
        EXPECT_EQ(w.grad().to_vector<double>(), expected) << name_of(dtype) << ' ' << channels;
      }
    }
  }
}

TEST(Conv2d, AGradientPenaltyCanBeTrained) {
  // The gradient with respect to x, squared and summed, is differentiated with respect to the
  // weight.
  const Tensor x = parameter({1, 2, 5, 5}, 1, DType::kF64);
  const Tensor weight = parameter({3, 2, 3, 3}, 2, DType::kF64);
  const auto penalty = [&] {
    const GradMode recording(true);
    const Tensor y = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
    const Tensor total = sum(y * y * y);
    const Tensor grad_x = grad({&total, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    return sum(grad_x * grad_x);
  };
  penalty().backward();
  const Doubles got = weight.grad().to_vector<double>();
  constexpr double kStep = 1e-6;
  auto* data = weight.mutable_data<double>();
  for (std::size_t i = 0; i < got.size(); i += 5) {
    const double value = data[i];
    data[i] = value + kStep;
    const double above = penalty().item();
    data[i] = value - kStep;
    const double below = penalty().item();
    data[i] = value;
    const double numeric = (above - below) / (2 * kStep);
    // Central differences lose about the cube root of f64's precision of the penalty itself.
    EXPECT_NEAR(got[i], numeric, kStep * std::max(1.0, std::abs(above)));
  }
}

TEST(Conv2d, InfinitiesAndNaNPassThrough) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor x = zeros({1, 1, 2, 2}, dtype);
    copy_elements(from_values({INFINITY, 1.0F, NAN, 2.0F}, {1, 1, 2, 2}), x);
    const Doubles y = conv2d(x, ones({1, 1, 1, 1}).astype(dtype)).to_vector<double>();
    EXPECT_EQ(y[0], INFINITY);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 2);
  }
}

// More than oneDNN can represent, and more than a product of sizes can hold.
TEST(Conv2d, TakesAnyStrideAndRefusesWhatCannotBeCounted) {
  const Tensor x = random_tensor({1, 2, 5, 5}, 1);
  const Tensor weight = random_tensor({3, 2, 3, 3}, 2);
  const Tensor corner = conv2d(slice(slice(x, 2, 0, 3), 3, 0, 3), weight);
  for (const std::int64_t stride : {std::int64_t{100}, std::int64_t{2147483647}}) {
    const Tensor y = conv2d(x, weight, {}, {.stride = stride});
    EXPECT_LT(largest_difference(y, corner), 1e-5) << stride;
  }
  const auto refusal = [&](const Conv2dOptions& options) {
    return message_of<ArgumentError>([&] { conv2d(x, weight, {}, options); });
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THAT(refusal({.dilation = kHuge}), testing::HasSubstr("is larger than 2147483647"));
  EXPECT_THAT(refusal({.padding = kHuge}), testing::HasSubstr("is larger than 2147483647"));
  EXPECT_THAT(refusal({.stride = kHuge, .padding = Padding::kSame}),
              testing::HasSubstr("is larger than 2147483647"));
}

}  // namespace
}  // namespace mezzo
