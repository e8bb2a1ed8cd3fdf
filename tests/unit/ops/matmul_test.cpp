#include "mezzo/ops/matmul.h"

#include <string>

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/cpu.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::largest_difference;
using test::parameter;
using test::plain_copy;
using test::random_tensor;

TEST(Matmul, VectorsAsInNumpy) {
  const Tensor row = from_values({1.0F, 2.0F}, {2});
  const Tensor matrix = from_values({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Tensor dot = matmul(row, row);
  EXPECT_EQ(dot.shape(), Shape({}));
  EXPECT_EQ(dot.item(), 5);
  EXPECT_EQ(matmul(row, matrix).to_vector<double>(), (Doubles{9, 12, 15}));
  const Tensor column = from_values({1.0F, 1.0F, 2.0F}, {3});
  EXPECT_EQ(matmul(matrix, column).to_vector<double>(), (Doubles{9, 21}));
  EXPECT_EQ(matmul(random_tensor({4, 5, 2}, 1), row).shape(), Shape({4, 5}));
  EXPECT_EQ(matmul(row, random_tensor({4, 2, 3}, 1)).shape(), Shape({4, 3}));
  EXPECT_EQ(matmul(row, matrix, {.transpose_a = true}).shape(), Shape({3}));
}

// The queries, keys and values of attention from one weight.
TEST(Linear, PartsOfA16BitParameterAreReadAtTheirPlaces) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor weight = parameter({96, 64}, 1);
    const Tensor low = weight.astype(dtype);
    const Tensor plain = plain_copy(weight).astype(dtype);
    const Tensor x = random_tensor({48, 64}, 2, dtype);
    for (int use = 0; use < 3; ++use) {
      for (const std::int64_t first : {0, 32, 64}) {
        const Tensor part = slice(low, 0, first, first + 32);
        const Tensor want = linear(x, slice(plain, 0, first, first + 32));
        EXPECT_EQ(largest_difference(linear(x, part), want), 0) << first;
        EXPECT_EQ(largest_difference(matmul(x, transpose(part)), want), 0) << first;
      }
    }
  }
}

TEST(Matmul, VectorGradients) {
  const Tensor a = parameter({3}, 1, DType::kF64);
  const Tensor b = parameter({3}, 2, DType::kF64);
  matmul(a, b).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), b.to_vector<double>());
  EXPECT_EQ(b.grad().to_vector<double>(), a.to_vector<double>());
}

// Each of three products is 257, which bf16 rounds to 256. Their sum is 771, or 772 in bf16.
TEST(Matmul, GradientsOfWhatIsUsedAgainAreAddedUpInF32) {
  for (const bool is_left : {false, true}) {
    const Tensor used_again = zeros({1, 1}, DType::kBf16).set_requires_grad(true);
    const std::vector<float> numbers{256, 1, 256, 1, 256, 1};
    const Shape shape = is_left ? Shape{3, 1, 2} : Shape{3, 2, 1};
    const Tensor others = from_values(numbers, shape).astype(DType::kBf16);
    const Tensor y = is_left ? matmul(used_again, others) : matmul(others, used_again);
    sum(y).backward();
    EXPECT_EQ(used_again.grad().item(), 772);
  }
}

TEST(Matmul, IntegersAndDoublesAreExact) {
  const Tensor a = from_values({std::int64_t{3}, std::int64_t{-2}}, {1, 2});
  const Tensor b = from_values({std::int64_t{1000003}, std::int64_t{7}}, {2, 1});
  const Tensor product = matmul(a, b);
  EXPECT_EQ(product.dtype(), DType::kI64);
  EXPECT_EQ(product.item(), 3000009 - 14);
  EXPECT_EQ(matmul(a.astype(DType::kF64), b).dtype(), DType::kF64);  // promoted
  constexpr std::int64_t kOdd = (std::int64_t{1} << 52) + 1;         // not exact in f32
  const Tensor large = from_values({kOdd}, {1, 1});
  const Tensor one = from_values({std::int64_t{1}}, {1, 1});
  EXPECT_EQ(matmul(large, one).to_vector<std::int64_t>()[0], kOdd);
  EXPECT_EQ(linear(large, one, ones({1})).to_vector<std::int64_t>()[0], kOdd + 1);
}

TEST(Matmul, ReadsPermutedAndSlicedOperandsInPlace) {
  for (const DType dtype : test::kVectorDTypes) {
    // Queries and keys as in attention: slices of one projection, heads before positions.
    const Tensor projection = random_tensor({2, 5, 3, 4, 8}, 1, dtype);
    const auto part = [&](std::int64_t i) {
      return alias(projection, {2, 4, 5, 8}, {480, 8, 96, 1}, 32 * i);
    };
    const Tensor scores = matmul(part(0), part(1), {.transpose_b = true});
    const Tensor want = matmul(plain_copy(part(0)), plain_copy(part(1)), {.transpose_b = true});
    EXPECT_EQ(scores.shape(), Shape({2, 4, 5, 5}));
    // Different kernels may add up in different orders before rounding once.
    EXPECT_LE(largest_difference(scores, want), test::sum_tolerance(8) + epsilon_of(dtype) * 4)
        << mezzo::name_of(dtype);
    const Tensor values = matmul(scores, part(2));
    EXPECT_EQ(values.shape(), Shape({2, 4, 5, 8}));
  }
}

TEST(Matmul, StridedRowsAndColumns) {
  const Tensor block = random_tensor({6, 20}, 1);
  const Tensor part = alias(block, {6, 7}, {20, 1}, 5);
  const Tensor every_other = alias(block, {6, 7}, {20, 2}, 3);
  const Tensor other = random_tensor({7, 4}, 2);
  for (const Tensor& a : {part, every_other}) {
    EXPECT_LE(largest_difference(matmul(a, other), matmul(plain_copy(a), other)),
              test::sum_tolerance(7));
    EXPECT_LE(largest_difference(matmul(other, a, {true, true}),
                                 matmul(other, plain_copy(a), {true, true})),
              test::sum_tolerance(7));
  }
}

// Every other row of 5: three rows would reach into the next matrix if all steps were taken.
TEST(Matmul, EveryOtherRowOfABatch) {
  for (const DType dtype : test::kVectorDTypes) {
    const double tolerance = test::sum_tolerance(4) + epsilon_of(dtype) * 4;
    const Tensor rows = slice(random_tensor({2, 5, 4}, 1, dtype), 1, 0, 5, 2);
    for (const Tensor& b : {random_tensor({2, 4, 3}, 2, dtype), random_tensor({4, 3}, 2, dtype)}) {
      EXPECT_LE(largest_difference(matmul(rows, b), matmul(plain_copy(rows), b)), tolerance);
      EXPECT_LE(largest_difference(matmul(b, rows, {true, true}),
                                   matmul(b, plain_copy(rows), {true, true})),
                tolerance);
    }
  }
}

// These sizes occur in no other test: oneDNN caches primitives, and takes one for another stride of
// an axis of size 1.
TEST(Matmul, SingleRowsOfABatchTransposed) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor a = random_tensor({3, 2, 1, 37}, 1, dtype);
    const Tensor b = random_tensor({1, 1, 1, 5}, 2, dtype);
    const Tensor want = mul(transpose(a), b);
    EXPECT_EQ(largest_difference(matmul(a, b, {.transpose_a = true}), want), 0) << name_of(dtype);
  }
}

TEST(Matmul, PackedWeightsFollowInPlaceChanges) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor x = random_tensor({4, 65}, 1, dtype);
    const Tensor weight = parameter({33, 65}, 2);
    for (int change = 0; change < 3; ++change) {
      const Tensor want = linear(x, plain_copy(weight).astype(dtype));
      for (int read = 0; read < 4; ++read) {  // from plain memory first, then packed
        EXPECT_LE(largest_difference(linear(x, weight.astype(dtype)), want),
                  test::sum_tolerance(65) + epsilon_of(dtype) * 65)
            << mezzo::name_of(dtype);
      }
      const NoGrad guard;
      fill(weight, change);
    }
  }
}

// Whoever reads it first: a network that was inspected between two steps continues to train like
// others.
TEST(Matmul, WeightsThatAreReadAgainGiveTheSameBits) {
  const NoGrad guard;
  for (const std::int64_t rows : {2, 4}) {
    for (const std::int64_t size : {4, 31, 130}) {
      const Tensor weight = parameter({16, size}, 5);
      const Tensor wide = random_tensor({rows, 2 * size}, 6);
      for (const Tensor& x : {slice(wide, 1, 0, size), random_tensor({rows, size}, 7)}) {
        const Doubles first = matmul(x, weight, {.transpose_b = true}).to_vector<double>();
        EXPECT_EQ(matmul(x, weight, {.transpose_b = true}).to_vector<double>(), first)
            << rows << " x " << size << ", rows " << x.strides()[0] << " apart";
      }
    }
  }
}

// Weights with gaps between their rows, and sizes that AVX2 kernels treat differently.
TEST(Matmul, WeightsWithGapsThatAreReadAgainGiveTheSameBits) {
  const NoGrad guard;
  const auto weight_of = [](const Shape& shape, std::int64_t gap) {
    const Tensor storage = random_tensor({shape[0], shape[1] + gap}, 5);
    return slice(storage, 1, 0, shape[1]).detach().set_requires_grad(true);
  };
  const auto expect_repeated = [](const Tensor& x, const Tensor& weight, bool transposed) {
    const auto product = [&] {
      return matmul(x, weight, {.transpose_b = transposed}).to_vector<double>();
    };
    const Doubles first = product();
    for (int read = 0; read < 2; ++read) EXPECT_EQ(product(), first) << concat(x, weight);
  };
  for (const std::int64_t gap : {0, 1, 4}) {
    expect_repeated(random_tensor({32, 422}, 6), weight_of({422, 10}, gap), false);
    expect_repeated(random_tensor({80, 1190}, 6), weight_of({54, 1190}, gap), true);
    expect_repeated(random_tensor({80, 8}, 6), weight_of({32, 8}, gap), true);
  }
}

TEST(Matmul, TallProductsPackAtOnce) {
  for (const DType dtype : test::kVectorDTypes) {
    const Tensor x = random_tensor({1500, 17}, 1, dtype);
    const Tensor weight = parameter({9, 17}, 2);
    const Tensor want = linear(x, plain_copy(weight).astype(dtype));
    EXPECT_LE(largest_difference(linear(x, weight.astype(dtype)), want),
              test::sum_tolerance(17) + epsilon_of(dtype) * 4);
  }
}

TEST(Linear, ParameterGradientsAreUnroundedF32) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor weight = parameter({5, 7}, 1);
    const Tensor bias = parameter({5}, 2);
    const Tensor x = random_tensor({2, 3, 7}, 3, dtype).set_requires_grad(true);
    const Tensor grad = random_tensor({2, 3, 5}, 4, dtype);
    linear(x, weight.astype(dtype), bias).backward(grad);
    const Tensor wide = plain_copy(weight).astype(DType::kF64).set_requires_grad(true);
    const Tensor wide_bias = plain_copy(bias).astype(DType::kF64).set_requires_grad(true);
    linear(plain_copy(x).astype(DType::kF64), wide, wide_bias).backward(grad.astype(DType::kF64));
    EXPECT_EQ(weight.grad().dtype(), DType::kF32);
    EXPECT_EQ(bias.grad().dtype(), DType::kF32);
    EXPECT_EQ(x.grad().dtype(), dtype);
    EXPECT_LE(largest_difference(weight.grad(), wide.grad()), test::sum_tolerance(6));
    EXPECT_LE(largest_difference(bias.grad(), wide_bias.grad()), test::sum_tolerance(6));
    EXPECT_GT(largest_difference(weight.grad(), weight.grad().astype(dtype)), 0);
  }
}

TEST(Linear, IsMatmulPlusBias) {
  const Tensor x = random_tensor({3, 4, 6}, 1);
  const Tensor weight = random_tensor({5, 6}, 2);
  const Tensor bias = random_tensor({5}, 3);
  const Tensor want = matmul(x, weight, {.transpose_b = true}) + bias;
  EXPECT_LE(largest_difference(linear(x, weight, bias), want), test::sum_tolerance(7));
  EXPECT_LE(
      largest_difference(linear(permute(x, {1, 0, 2}), weight, bias), permute(want, {1, 0, 2})),
      test::sum_tolerance(7));
}

TEST(Linear, OneAndTwoThreadsAgree) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    std::vector<Tensor> results;
    for (const int threads : {1, 2}) {
      const test::Threads guard(threads);
      const Tensor weight = parameter({64, 96}, 1);
      linear(random_tensor({48, 96}, 2, dtype), weight.astype(dtype))
          .backward(random_tensor({48, 64}, 3, dtype));
      results.push_back(weight.grad());
    }
    EXPECT_LE(largest_difference(results[0], results[1]), test::sum_tolerance(48));
  }
}

// oneDNN accepts bf16 on any CPU, but takes three times as long as for f32 without a fast dot
// product.
TEST(Matmul, WidensBf16WhereTheCpuDoesNotMultiplyItFaster) {
  const Tensor a = random_tensor({300, 300}, 1, DType::kBf16);
  const test::SeeKernel see("matmul");
  matmul(a, a);
  EXPECT_EQ(see.kernel == "cpu_onednn_f32", !has_fast_bf16()) << see.kernel;
}

TEST(Linear, SecondDerivativesUnderMixedPrecision) {
  // The weight gradient is f32 while x is bf16; differentiating again combines both.
  const Tensor weight = parameter({3, 4}, 1);
  const Tensor x = random_tensor({5, 4}, 2, DType::kBf16).set_requires_grad(true);
  const Tensor y = linear(x, weight.astype(DType::kBf16));
  const Tensor total = sum(y * y);
  const Tensor first = grad({&total, 1}, {&weight, 1}, {}, {.create_graph = true})[0];
  EXPECT_EQ(first.dtype(), DType::kF32);
  sum(first).backward();
  EXPECT_EQ(x.grad().dtype(), DType::kF32);  // a sum over both
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
}

}  // namespace
}  // namespace mezzo
