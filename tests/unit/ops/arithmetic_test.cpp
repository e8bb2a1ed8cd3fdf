// Tests broadcasting over views, layout changes, slicing, concatenation and look-ups.
#include "mezzo/ops/arithmetic.h"

#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

// Views of one shape with every kind of strides; large enough for several threads.
std::vector<Tensor> views(Generator& generator) {
  const Tensor x = randn({4, 23, 21, 30}, generator);
  return {x,
          to_format(x, Format::kChannelsLast),
          slice(randn({4, 23, 21, 60}, generator), 3, 0, 60, 2),
          permute(randn({30, 21, 4, 23}, generator), {2, 3, 1, 0}),
          slice(randn({9, 23, 21, 30}, generator), 0, 2, 6),
          expand(randn({23, 1, 1}, generator), {4, 23, 21, 30}),
          expand(randn({4, 1, 21, 1}, generator), {4, 23, 21, 30}),
          expand(randn({30}, generator), {4, 23, 21, 30}),
          expand(randn({}, generator), {4, 23, 21, 30})};
}

TEST(Arithmetic, EveryPairOfViewsAgreesWithF64) {
  Generator generator(3);
  const std::vector<Tensor> all = views(generator);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      const Floats got = (all[i] * all[j]).to_vector<float>();
      const Tensor wide = all[i].astype(DType::kF64) * all[j].astype(DType::kF64);
      ASSERT_EQ(got, wide.astype(DType::kF32).to_vector<float>()) << i << " and " << j;
    }
  }
}

TEST(Arithmetic, InPlaceAdditionReachesEveryView) {
  Generator generator(4);
  const Tensor more = randn({4, 23, 21, 30}, generator);
  for (const Tensor& view : views(generator)) {
    if (view.bytes() != view.storage()->bytes()) continue;  // views that overlap or cover a part
    const Tensor sum = view + more;
    const Floats expected = sum.to_vector<float>();
    add_into(view, more);
    EXPECT_EQ(view.to_vector<float>(), expected);
  }
  const Tensor block = zeros({4, 6});
  const Tensor column = slice(block, 1, 2, 3);
  add_into(column, ones({4, 1}));
  add_into(slice(block, 0, 1, 4, 2), from_values({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {6}));
  EXPECT_EQ(block.to_vector<float>(),
            (Floats{0, 0, 1, 0, 0, 0, 1, 2, 4, 4, 5, 6, 0, 0, 1, 0, 0, 0, 1, 2, 4, 4, 5, 6}));
}

TEST(Arithmetic, IntegersAreExactAndWrapAround) {
  const Tensor a = from_values<std::int64_t>({(1LL << 62) + 1, -5}, {2});
  const Tensor b = from_values<std::int64_t>({1, 3}, {2});
  EXPECT_EQ((a - b).to_vector<std::int64_t>(), (Longs{1LL << 62, -8}));
  EXPECT_EQ((a * b).to_vector<std::int64_t>(), (Longs{(1LL << 62) + 1, -15}));
  const Tensor bytes = from_values<std::uint8_t>({250, 3}, {2});
  EXPECT_EQ((bytes + bytes).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{244, 6}));
  const Tensor ints = from_values<std::int32_t>({-2, 7}, {2});
  EXPECT_EQ((ints * ints).to_vector<std::int32_t>(), (std::vector<std::int32_t>{4, 49}));
}

// Runs convert_into from each source, all equal and of different layouts, to both formats of `to`.
void expect_equal_copies(const std::vector<Tensor>& sources, DType from, DType to) {
  const Floats expected = sources[0].astype(from).astype(to).to_vector<float>();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Tensor source = sources[i].astype(from);
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      const Tensor copy = empty(source.shape(), to, format);
      convert_into(source, copy);
      ASSERT_EQ(copy.to_vector<float>(), expected)
          << name_of(from) << " " << name_of(to) << " " << i;
    }
  }
}

// Every pair of layouts and dtypes, with sizes on both sides of the tile.
TEST(ToFormat, CopiesEveryLayoutIntoEveryOther) {
  Generator generator(6);
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 64, 32, 33}, Shape{2, 70, 9, 11},
                             Shape{1, 3, 40, 41}, Shape{1, 200, 6, 7}}) {
    const Tensor x = randn(shape, generator);
    const std::vector<Tensor> sources = {
        x, to_format(x, Format::kChannelsLast), transpose(contiguous(transpose(x, 0, 3)), 0, 3),
        slice(cat({x, x}, 2), 2, 0, shape[2]), transpose(contiguous(transpose(x, 1, 2)), 1, 2)};
    for (const DType from : {DType::kF32, DType::kBf16, DType::kF16, DType::kI32}) {
      for (const DType to : {DType::kF32, DType::kBf16, DType::kF16}) {
        expect_equal_copies(sources, from, to);
      }
    }
  }
}

TEST(Slice, NegativePositionsAndSteps) {
  const Tensor x = arange(10);
  EXPECT_EQ(slice(x, 0, -3, 100).to_vector<float>(), (Floats{7, 8, 9}));
  EXPECT_EQ(slice(x, -1, 1, -1, 3).to_vector<float>(), (Floats{1, 4, 7}));
  EXPECT_EQ(slice(x, 0, 5, 2).numel(), 0);
  EXPECT_EQ(slice(x, 0, 0, 10).impl(), x.impl());
  EXPECT_THROW(slice(x, 0, 0, 1, 0), ArgumentError);
  EXPECT_THROW(slice(x, 1, 0, 1), ArgumentError);
}

TEST(Slice, GradientGoesWhereTheElementsCameFrom) {
  const Tensor x = arange(6).detach().set_requires_grad(true);
  sum(slice(x, 0, 1, 6, 2) * slice(x, 0, 0, 5, 2)).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 0, 3, 2, 5, 4}));
}

TEST(Cat, PromotesAndKeepsChannelsLast) {
  const Tensor a = to_format(full({1, 2, 2, 2}, 1), Format::kChannelsLast);
  const Tensor b = to_format(full({1, 3, 2, 2}, 2), Format::kChannelsLast);
  EXPECT_EQ(cat({a, b}, 1).format(), Format::kChannelsLast);
  const Tensor mixed = cat({a.astype(DType::kBf16), b}, 1);
  EXPECT_EQ(mixed.dtype(), DType::kF32);
  EXPECT_EQ(sum(mixed).item(), 8 + 24);
  EXPECT_THROW(cat({}), ArgumentError);
  EXPECT_THROW(cat({a, b}, 0), ArgumentError);
}

TEST(Cat, RefusesAxesThatCannotBeCounted) {
  const auto error_of = [](DType dtype, std::int64_t size) {
    const Tensor endless = expand(zeros({1}, dtype), {size});
    return message_of<ArgumentError>([&] { cat({endless, endless}); });
  };
  EXPECT_EQ(error_of(DType::kBool, std::int64_t{1} << 62),
            "[cat] axis 0 would be longer than can be counted. Join fewer");
  EXPECT_THAT(error_of(DType::kF32, std::int64_t{1} << 60),
              testing::HasSubstr("[cat] the result would be f32[2305843009213693952], more bytes "
                                 "than can be counted"));
}

TEST(Calls, NameUndefinedTensors) {
  const Tensor none;
  EXPECT_EQ(message_of([&] { relu(none); }),
            "[relu] input 0 is an undefined tensor. Assign it first");
  EXPECT_EQ(message_of([&] {
              linear(zeros({2, 2}), none);
            }),
            "[linear] input 1 is an undefined tensor. Assign it first");
}

TEST(Cat, MoreTensorsThanFitInPlace) {
  std::vector<Tensor> parts;
  parts.reserve(40);
  for (int i = 0; i < 40; ++i) parts.push_back(full({2}, i).set_requires_grad(true));
  const Tensor joined = cat(parts);
  EXPECT_EQ(joined.shape(), (Shape{80}));
  sum(joined * joined).backward();
  EXPECT_EQ(parts[39].grad().to_vector<float>(), (Floats{78, 78}));
}

TEST(Embedding, RepeatedIndicesAddUpInF32) {
  // 1000 gradients of 1 for one row: in bf16 the sum would stop at 256.
  const Tensor weight = zeros({3, 20}, DType::kBf16).set_requires_grad(true);
  const Tensor indices = full({1000}, 1, DType::kI64);
  sum(embedding(weight, indices), {}, false, DType::kF32).backward();
  const Floats grads = weight.grad().to_vector<float>();
  EXPECT_EQ(grads[19], 0);
  EXPECT_EQ(grads[20], 1000);
  EXPECT_EQ(grads[40], 0);
}

TEST(Embedding, NamesTheIndexThatIsWrong) {
  const Tensor weight = zeros({3, 2});
  EXPECT_EQ(message_of([&] {
              embedding(weight, from_values<std::int64_t>({0, 2, 3}, {3}));
            }),
            "[embedding] index 2 is 3, out of range for 3 rows. Indices count from 0");
}

TEST(ArgMax, TheFirstOfTiesAndNanWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = from_values({1.0F, 3.0F, 3.0F, 9.0F, nan, nan}, {2, 3});
  EXPECT_EQ(argmax(x).to_vector<std::int64_t>(), (Longs{1, 1}));
  EXPECT_EQ(argmax(x, 0).to_vector<std::int64_t>(), (Longs{1, 1, 1}));
  EXPECT_EQ(count_correct(x, from_values<std::int64_t>({1, 0}, {2})), 1);
}

TEST(ArgMax, ComparesIntegersExactly) {
  constexpr std::int64_t kBig = std::int64_t{1} << 53;
  const Tensor x = from_values<std::int64_t>({kBig, kBig + 1, -kBig - 1, -kBig}, {2, 2});
  EXPECT_EQ(argmax(x).to_vector<std::int64_t>(), (Longs{1, 1}));
  EXPECT_EQ(argmax(x, 0).to_vector<std::int64_t>(), (Longs{0, 0}));
}

// About every second or third quotient would differ in its last bit if it were computed with the
// reciprocal.
TEST(DivNumber, IsRoundedOnce) {
  Floats numbers;
  for (int i = -37; i < 100; ++i) numbers.push_back(static_cast<float>(i) * 1.0625F);
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Tensor x = from_values(numbers, {count});
  const Tensor wide = x.astype(DType::kF64);
  for (const double divisor : {3.0, 10.0, -49.0, 0.1}) {
    Floats expected;
    std::vector<double> expected_wide;
    for (const float number : numbers) {
      expected.push_back(number / static_cast<float>(divisor));
      expected_wide.push_back(static_cast<double>(number) / divisor);
    }
    EXPECT_EQ((x / divisor).to_vector<float>(), expected) << divisor;
    EXPECT_EQ((wide / divisor).to_vector<double>(), expected_wide) << divisor;
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      const Tensor narrow = x.astype(dtype);
      const Tensor quotient = (narrow.astype(DType::kF32) / divisor).astype(dtype);
      EXPECT_EQ((narrow / divisor).to_vector<float>(), quotient.to_vector<float>()) << divisor;
    }
  }
}

TEST(DivNumber, KeepsTheSignOfZeroAndDividesByIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = from_values({-0.0F, 1.0F, -1.0F}, {3});
  const Floats quarters = (x / 4).to_vector<float>();
  EXPECT_EQ(quarters, (Floats{-0.0F, 0.25F, -0.25F}));
  EXPECT_TRUE(std::signbit(quarters[0]));
  const Floats by_zero = (x / 0).to_vector<float>();
  EXPECT_TRUE(std::isnan(by_zero[0]));
  EXPECT_EQ(by_zero[1], infinity);
  EXPECT_EQ(by_zero[2], -infinity);
  EXPECT_EQ((x / infinity).to_vector<float>(), (Floats{0, 0, 0}));
}

// As an f32 number, the divisor would be 0 or infinite.
TEST(DivNumber, TakesDivisorsThatF32DoesNotHold) {
  const Tensor x = from_values({1e30F, 0.0F}, {2});
  EXPECT_EQ((x / 1e50).to_vector<float>(),
            (Floats{static_cast<float>(static_cast<double>(1e30F) / 1e50), 0}));
  const Tensor small = from_values({0x1p-120F, 0.0F}, {2});
  EXPECT_EQ((small / 0x1p-140).to_vector<float>(), (Floats{0x1p20F, 0}));
}

// The product of 1 + 2^-27 with itself is 1 + 2^-26 + 2^-54. Rounded, it ends before its last bit,
// which an instruction that multiplies and adds would keep: see -ffp-contract in the main
// CMakeLists.txt.
TEST(Affine, OfPlainLoopsRoundsAProductBeforeItIsAdded) {
  const double factor = 1 + 0x1p-27;
  const Tensor x = full({9}, factor, DType::kF64);
  EXPECT_EQ(affine(x, factor, -(1 + 0x1p-26)).to_vector<double>(), std::vector<double>(9, 0.0));
}

// As an f32 number the factor would be 0 or infinite.
TEST(Affine, TakesFactorsThatF32DoesNotHold) {
  const Tensor x = from_values({1e30F, -0x1p100F, 0.0F}, {3});
  EXPECT_EQ(affine(x, 1e-50, 0).to_vector<float>(),
            (Floats{static_cast<float>(static_cast<double>(1e30F) * 1e-50),
                    static_cast<float>(-0x1p100 * 1e-50), 0}));
  const Tensor small = from_values({0x1p-120F, 0.0F}, {2});
  EXPECT_EQ(affine(small, 0x1p140, 1).to_vector<float>(), (Floats{1048577, 1}));
}

// Errors must not name the operations that do the work.
TEST(Operators, RefuseIntegersInTheirOwnNames) {
  const Tensor x = arange(3, DType::kI64);
  const auto refusal = [&](const auto& action) { return message_of<ArgumentError>(action); };
  EXPECT_EQ(refusal([&] { x * 2.0; }),
            "[operator*] x must be floating-point, it is i64. Use astype(DType::kF32)");
  EXPECT_THAT(refusal([&] { 2.0 * x; }), testing::StartsWith("[operator*] "));
  EXPECT_THAT(refusal([&] { x + 2.0; }), testing::StartsWith("[operator+] "));
  EXPECT_THAT(refusal([&] { 2.0 + x; }), testing::StartsWith("[operator+] "));
  EXPECT_THAT(refusal([&] { x - 2.0; }), testing::StartsWith("[operator-] "));
  EXPECT_THAT(refusal([&] { 2.0 - x; }), testing::StartsWith("[operator-] "));
  EXPECT_THAT(refusal([&] { -x; }), testing::StartsWith("[operator-] "));
  EXPECT_THAT(refusal([&] { x / 2.0; }), testing::StartsWith("[operator/] "));
  EXPECT_THAT(refusal([&] { div(x, 2.0); }), testing::StartsWith("[div] "));
  EXPECT_THAT(refusal([&] { affine(x, 2, 1); }), testing::StartsWith("[affine] "));
}

TEST(AddInto, RefusesOtherViewsOfWhatItChanges) {
  const Tensor a = reshape(arange(9), {3, 3});
  const auto refusal = [](const Tensor& to, const Tensor& from) {
    return message_of<ArgumentError>([&] { add_into(to, from); });
  };
  EXPECT_THAT(refusal(a, transpose(a)), testing::HasSubstr("another view of the memory"));
  EXPECT_THAT(refusal(a, slice(a, 0, 0, 1)), testing::HasSubstr("another view of the memory"));
  EXPECT_THAT(refusal(slice(a, 0, 1, 3), slice(a, 0, 0, 2)),
              testing::HasSubstr("another view of the memory"));
  const Tensor one = full({1}, 1);
  EXPECT_THAT(refusal(expand(one, {5}), full({5}, 1)),
              testing::HasSubstr("one element at several indices"));
  add_into(slice(a, 0, 0, 1), slice(a, 0, 1, 2));  // disjoint
  add_into(a, a);
  EXPECT_EQ(a.to_vector<float>(), (Floats{6, 10, 14, 6, 8, 10, 12, 14, 16}));
}

TEST(Slice, AStepMayBeLargerThanAnyTensor) {
  const Tensor x = arange(10);
  EXPECT_EQ(slice(x, 0, 3, 10, std::numeric_limits<std::int64_t>::max()).to_vector<float>(),
            Floats{3});
}

}  // namespace
}  // namespace mezzo
