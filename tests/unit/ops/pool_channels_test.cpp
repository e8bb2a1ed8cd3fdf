// Tests pooling for every number of channels, with every kind of window, against the plain loops,
// bit for bit.
#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/pool_attrs.h"
#include "tests/unit/ops/support.h"

namespace mezzo {

namespace ops {
extern const OpDef max_pool2d;
extern const OpDef max_pool2d_grad;
extern const OpDef avg_pool2d;
extern const OpDef avg_pool2d_grad;
}  // namespace ops

namespace {

constexpr std::int64_t kChannels[] = {1, 2, 3, 4, 6, 7, 8, 9, 15, 16, 17, 64, 67};

// Windows that touch, overlap, leave gaps and reach into padding; images that end in a window.
const std::vector<Pool2dAttrs>& windows() {
  static const std::vector<Pool2dAttrs> kWindows{
      {},
      {.padding = {1, 1, 1, 1}},
      {.padding = {1, 0, 0, 1}},
      {.stride = 3},
      {.stride = {3, 2}, .padding = {0, 1, 1, 0}},
      {.stride = 1},
      {.kernel = 1},
      {.kernel = {2, 4}, .stride = {2, 4}},
      {.kernel = 3, .stride = 3, .padding = {1, 1, 2, 1}},
      {.kernel = 3, .stride = 2, .padding = {1, 1, 1, 1}},
      {.kernel = {17, 16}, .stride = 17, .padding = {3, 2, 1, 0}},
  };
  return kWindows;
}

// Integers from -3 to 3, which give ties, zeros of both signs, and a few NaNs. They and their sums
// are exact in every dtype.
Tensor ties(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor values = empty(shape);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto number = static_cast<float>(generator.uniform() * 7.2);
    const bool is_nan = number > 7.1F;
    values.mutable_data<float>()[i] = is_nan ? NAN : std::trunc(number) - 3;
    if (number < 0.4F) values.mutable_data<float>()[i] = -0.0F;
  }
  return values;
}

Tensor whole_numbers(const Shape& shape) {
  const Tensor values = ties(shape, 3);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    float& value = values.mutable_data<float>()[i];
    if (std::isnan(value)) value = 5;
  }
  return values;
}

void expect_same_bits(const Tensor& result, const Tensor& expected, const std::string& what) {
  const std::vector<double> a = result.to_vector<double>();
  const std::vector<double> b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  const auto is_same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  };
  const auto [got, want] = std::ranges::mismatch(a, b, is_same);
  if (got == a.end()) return;
  ADD_FAILURE() << what << ", element " << got - a.begin() << ": " << *got << " instead of "
                << *want;
}

std::string describe(DType dtype, const Shape& x, const Pool2dAttrs& attrs) {
  return concat(dtype, " ", x, " ", Attrs(attrs).to_text());
}

Pool2dAttrs for_gradient(Pool2dAttrs attrs, const Shape& x) {
  attrs.image = {x[2], x[3]};
  return attrs;
}

// The plain loops compute f64.
void check_max(const Shape& shape, DType dtype, const Pool2dAttrs& attrs) {
  const std::string what = describe(dtype, shape, attrs);
  const Tensor x = cast(ties(shape, 1), dtype);
  const Tensor wide = cast(x, DType::kF64);
  const Outputs result = call(ops::max_pool2d, {&x}, attrs);
  const Outputs expected = call(ops::max_pool2d, {&wide}, attrs);
  expect_same_bits(result[0], expected[0], what);
  expect_same_bits(result[1], expected[1], what + " positions");
  const Pool2dAttrs grad_attrs = for_gradient(attrs, shape);
  const Tensor grad = cast(whole_numbers(result[0].shape()), dtype);
  const Tensor wide_grad = cast(grad, DType::kF64);
  const Tensor spread = call_one(ops::max_pool2d_grad, {&grad, &result[1]}, grad_attrs);
  const Tensor wide_spread = call_one(ops::max_pool2d_grad, {&wide_grad, &result[1]}, grad_attrs);
  // A sum of only -0 is +0 if sums begin with 0.
  expect_same_bits(spread + 0.0, wide_spread + 0.0, what + " gradient");
}

TEST(PoolChannels, MaximaAndTheirGradientsAreThePlainLoops) {
  for (const Pool2dAttrs& attrs : windows()) {
    for (const std::int64_t channels : kChannels) {
      for (const DType dtype : test::kVectorDTypes) {
        check_max({2, channels, 17, 20}, dtype, attrs);
        check_max({1, channels, 18, 17}, dtype, attrs);
      }
    }
  }
}

TEST(PoolChannels, AWindowPerImage) {
  for (const std::int64_t channels : kChannels) {
    for (const DType dtype : test::kVectorDTypes) {
      check_max({1, channels, 2, 2}, dtype, {});
      check_max({5, channels, 2, 3}, dtype, {});
    }
  }
}

TEST(PoolChannels, NoChannels) {
  for (const Pool2dAttrs& attrs : windows()) check_max({2, 0, 18, 17}, DType::kBf16, attrs);
}

void check_mean(const Shape& shape, DType dtype, const Pool2dAttrs& attrs) {
  const std::string what = describe(dtype, shape, attrs);
  const Tensor x = cast(whole_numbers(shape), dtype);
  const Tensor wide = cast(x, DType::kF64);
  const Tensor result = call_one(ops::avg_pool2d, {&x}, attrs);
  const Tensor expected = cast(call_one(ops::avg_pool2d, {&wide}, attrs), dtype);
  expect_same_bits(result + 0.0, expected + 0.0, what);
  const Pool2dAttrs grad_attrs = for_gradient(attrs, shape);
  const Tensor grad = cast(whole_numbers(result.shape()), dtype);
  const Tensor wide_grad = cast(grad, DType::kF64);
  const Tensor spread = call_one(ops::avg_pool2d_grad, {&grad}, grad_attrs);
  const Tensor wide_spread = call_one(ops::avg_pool2d_grad, {&wide_grad}, grad_attrs);
  expect_same_bits(spread + 0.0, cast(wide_spread, dtype) + 0.0, what + " gradient");
}

// Divisors are powers of two: shares and their sums are exact, and rounded once.
TEST(PoolChannels, MeansAreThePlainLoops) {
  const Pool2dAttrs kinds[] = {
      {}, {.padding = {1, 1, 1, 1}}, {.stride = 3}, {.kernel = {4, 2}, .stride = 1}};
  for (const Pool2dAttrs& attrs : kinds) {
    for (const std::int64_t channels : kChannels) {
      for (const DType dtype : test::kVectorDTypes) check_mean({2, channels, 9, 12}, dtype, attrs);
    }
  }
}

// The pooling results with that many threads: maxima, their positions and gradient, and means.
std::vector<Tensor> pooled(const Tensor& x, const Pool2dAttrs& attrs, int threads) {
  const test::Threads guard(threads);
  const Outputs largest = call(ops::max_pool2d, {&x}, attrs);
  const Tensor spread =
      call_one(ops::max_pool2d_grad, {&largest[0], &largest[1]}, for_gradient(attrs, x.shape()));
  return {largest[0], largest[1], spread, call_one(ops::avg_pool2d, {&x}, attrs)};
}

void check_threads(const Tensor& x, const Pool2dAttrs& attrs) {
  const std::vector<Tensor> expected = pooled(x, attrs, 1);
  for (const int threads : {2, 3}) {
    const std::vector<Tensor> result = pooled(x, attrs, threads);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_same_bits(result[i], expected[i], describe(DType::kBf16, x.shape(), attrs));
    }
  }
}

// Vectors may reach into the next pixels, but never into those of another thread.
TEST(PoolChannels, ThreadsKeepToTheirRows) {
  for (const std::int64_t channels : {3, 6, 7, 17}) {
    const Tensor x = cast(ties({64, channels, 34, 40}, 2), DType::kBf16);
    for (const Pool2dAttrs& attrs : windows()) check_threads(x, attrs);
  }
}

}  // namespace
}  // namespace mezzo
