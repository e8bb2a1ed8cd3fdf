// Tests the panel kernel of conv2d_grad_weight on images that it normalises while copying: it gives
// the same bits as for images normalised before.
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/pending_norm.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using kernels::grad_weight::Products;
using test::bits_of;

struct NormalizedCase {
  Shape x;  // [n, c, h, w]
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs{};
};

// Partial panels and pairs of images, with and without padding.
std::vector<NormalizedCase> normalized_cases() {
  return {
      {{1, 16, 5, 5}, 16, {1, 1}},
      {{2, 17, 6, 6}, 20, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{3, 24, 7, 9}, 9, {3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{5, 33, 9, 8}, 40, {5, 3}, {.stride = {3, 1}, .padding = {2, 0, 1, 3}}},
      {{4, 6, 14, 14}, 9, {5, 5}},
      {{3, 16, 40, 40}, 16, {3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{9, 80, 5, 5}, 72, {1, 1}},
  };
}

enum class Affine : std::uint8_t { kNone, kWeight, kBias, kBoth };

struct Norm {
  Tensor x;
  bool relu = true;
  bool has_residual = false;
  Affine affine = Affine::kBoth;
};

// Special values in the result: 16-bit overflows, values that round to 0, NaN. The first channels
// keep ordinary statistics.
void make_special(const Tensor& values, bool is_weight) {
  auto* v = values.mutable_data<float>();
  const float factors[] = {1, 1e30F, 3e-8F, kInf, -2e-8F, 0, -1e5F};
  const float elements[] = {kNan, kInf, -kInf, 0x1p-25F, -0x1p-25F, 0x1p-24F, -0.0F, 65504, 1e30F};
  for (std::int64_t i = is_weight ? 3 : 5; i < values.numel(); i += is_weight ? 1 : 11) {
    v[i] = is_weight ? factors[i % 7] : elements[i / 11 % 9];
  }
}

// A recorded norm and the stand-in for its result.
struct Recorded {
  Tensor y;
  Tensor again;
};

Recorded record_norm(const Norm& norm, bool special) {
  const DType dtype = norm.x.dtype();
  const std::int64_t channels = norm.x.size(1);
  const Tensor weight = test::random_tensor({channels}, 11);
  const Tensor bias = test::random_tensor({channels}, 12);
  const Tensor side = test::random_tensor(norm.x.shape(), 13);
  if (special) {
    make_special(weight, true);
    make_special(side, false);
  }
  const bool has_weight = norm.affine == Affine::kWeight || norm.affine == Affine::kBoth;
  const bool has_bias = norm.affine == Affine::kBias || norm.affine == Affine::kBoth;
  const Tensor x = norm.x.detach().set_requires_grad(true);
  Tensor residual;
  Tensor keeper;
  if (norm.has_residual) {
    residual = affine(cast(side, dtype).set_requires_grad(true), 1, -0.0);
    keeper = residual * residual;
  }
  Recorded result;
  result.y = batch_norm(x, has_weight ? weight : Tensor(), has_bias ? bias : Tensor(),
                        {.relu = norm.relu, .residual = residual})
                 .y;
  result.again = recompute_norm(*node_of(result.y));
  return result;
}

test::Bits grad_weight_bits(const NormalizedCase& c, const Tensor& x, Products products) {
  const Size2d out = c.attrs.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
  const Tensor grad = test::random_tensor({c.x[0], c.out_channels, out.h, out.w}, 14, x.dtype());
  const Attrs attrs(Conv2dGradAttrs{c.attrs, c.kernel, true});
  const Tensor result = empty({c.out_channels, c.x[1], c.kernel.h, c.kernel.w});
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  Tensor outputs[] = {result};
  kernels::run_grad_weight({inputs, outputs, attrs}, products);
  return bits_of(result);
}

struct WayOfProducts {
  Products products;
  DType dtype;
};

class GradWeightOfNorms : public testing::TestWithParam<WayOfProducts> {
 protected:
  void SetUp() override {
    const Products products = GetParam().products;
    if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
    if (products == Products::kTiles && !kernels::has_tiles()) {
      GTEST_SKIP() << "this CPU has no AMX";
    }
    if (products == Products::kPairs && !has_bf16_dot()) {
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    }
  }

  void check(const NormalizedCase& c, const Norm& norm, bool special = false) {
    const Recorded recorded = record_norm(norm, special);
    ASSERT_TRUE(recorded.again.defined());
    const test::Bits got = grad_weight_bits(c, recorded.again, GetParam().products);
    EXPECT_NE(pending_norm_of(recorded.again), nullptr) << "it was filled";
    EXPECT_TRUE(got == grad_weight_bits(c, recorded.y, GetParam().products)) << concat(c.x);
    EXPECT_TRUE(bits_of(recorded.again) == bits_of(recorded.y)) << concat(c.x);
    EXPECT_EQ(pending_norm_of(recorded.again), nullptr) << "it was not filled";
    EXPECT_TRUE(got == grad_weight_bits(c, recorded.again, GetParam().products)) << concat(c.x);
  }
};

TEST_P(GradWeightOfNorms, HasTheBitsOfThatOfResults) {
  for (const int threads : {1, 2, 5}) {
    const test::Threads guard(threads);
    for (const NormalizedCase& c : normalized_cases()) {
      const Tensor x = test::random_tensor(c.x, 1, GetParam().dtype);
      for (const bool relu : {false, true}) check(c, {x, relu});
      check(c, {x, true, true});
    }
  }
}

// Joined columns are stretches of stored rows, so the result is stored.
TEST_P(GradWeightOfNorms, OfJoinedColumnsAreFilled) {
  const NormalizedCase c{{4, 6, 14, 14}, 24, {5, 5}};
  const Recorded recorded = record_norm({test::random_tensor(c.x, 1, GetParam().dtype)}, false);
  const test::Bits got = grad_weight_bits(c, recorded.again, GetParam().products);
  EXPECT_EQ(pending_norm_of(recorded.again), nullptr);
  EXPECT_TRUE(got == grad_weight_bits(c, recorded.y, GetParam().products));
}

TEST_P(GradWeightOfNorms, WithoutWeightsAndBiases) {
  const NormalizedCase c = normalized_cases()[1];
  const Tensor x = test::random_tensor(c.x, 1, GetParam().dtype);
  for (const Affine affine : {Affine::kNone, Affine::kWeight, Affine::kBias}) {
    for (const bool has_residual : {false, true}) check(c, {x, true, has_residual, affine});
  }
}

TEST_P(GradWeightOfNorms, OfImagesInEitherFormat) {
  const NormalizedCase c = normalized_cases()[2];
  const Tensor x = empty(c.x, GetParam().dtype, Format::kChannelsLast);
  copy_elements(test::random_tensor(c.x, 1), x);
  for (const bool has_residual : {false, true}) check(c, {x, true, has_residual});
}

TEST_P(GradWeightOfNorms, OfNumbersThatAreNotFiniteOrRoundToZero) {
  for (const NormalizedCase& c : normalized_cases()) {
    const Tensor x = test::random_tensor(c.x, 1, GetParam().dtype);
    for (const bool relu : {false, true}) check(c, {x, relu}, true);
    check(c, {x, true, true}, true);
  }
}

TEST_P(GradWeightOfNorms, OfChannelsWithoutStatistics) {
  const NormalizedCase c = normalized_cases()[1];
  const Tensor values = test::random_tensor(c.x, 1);
  values.mutable_data<float>()[40] = kNan;
  values.mutable_data<float>()[80] = kInf;
  for (const bool has_residual : {false, true}) {
    check(c, {cast(values, GetParam().dtype), true, has_residual});
  }
}

std::string name_of_way(const testing::TestParamInfo<WayOfProducts>& parameter) {
  const std::string dtype = parameter.param.dtype == DType::kF16 ? "F16" : "Bf16";
  switch (parameter.param.products) {
    case Products::kF32: return "F32Of" + dtype;
    case Products::kPairs: return "PairsOf" + dtype;
    case Products::kTiles: return "TilesOf" + dtype;
  }
  return "Unknown";
}

INSTANTIATE_TEST_SUITE_P(Products, GradWeightOfNorms,
                         testing::Values(WayOfProducts{Products::kF32, DType::kF16},
                                         WayOfProducts{Products::kF32, DType::kBf16},
                                         WayOfProducts{Products::kPairs, DType::kBf16},
                                         WayOfProducts{Products::kTiles, DType::kBf16}),
                         name_of_way);

}  // namespace
}  // namespace mezzo
