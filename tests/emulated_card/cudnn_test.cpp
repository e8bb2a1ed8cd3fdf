// Tests which engines of cuDNN are tried, and what happens to a convolution that they refuse.
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/tf32.h"
#include "tests/emulated_card/cudnn_watch.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

using emulated_card::cudnn_watch;

// Small integers, whose sums are the same in every order.
Tensor integers(const Shape& shape, DType dtype) {
  return cast(cast(randn(shape) * 2, DType::kI32), dtype);
}

Tensor conv_on_card(const Tensor& x, const Tensor& weight) {
  return conv2d(x.to(kCard), weight.to(kCard));
}

class Cudnn : public testing::Test {
 protected:
  void SetUp() override { cudnn_watch() = {}; }
  void TearDown() override { cudnn_watch() = {}; }
};

TEST_F(Cudnn, EnginesThatAreCompiledAtRunTimeAreFew) {
  conv_on_card(randn({2, 3, 9, 9}), randn({4, 3, 3, 3}));
  EXPECT_GE(cudnn_watch().plans, 3) << "the plain engine and the compiled ones";
  EXPECT_EQ(cudnn_watch().compiled, 2) << "of three";
}

TEST_F(Cudnn, OperandsOf16BitsAreWidenedWhereEnginesRefuseToRun) {
  const Tensor x = integers({2, 9, 8, 8}, DType::kBf16);
  const Tensor weight = integers({3, 9, 3, 3}, DType::kBf16);
  cudnn_watch().refuses_16_bits = true;
  for (int again = 0; again < 2; ++again) {
    cudnn_watch().runs_of_f32 = 0;
    EXPECT_EQ(conv_on_card(x, weight).to_vector<float>(), conv2d(x, weight).to_vector<float>());
    EXPECT_GT(cudnn_watch().runs_of_f32, 0);
  }
  EXPECT_EQ(cudnn_watch().runs_of_16_bits, 0);
}

TEST_F(Cudnn, AnEngineThatRefusesSomeDayIsReplaced) {
  const Tensor x = integers({2, 9, 9, 8}, DType::kF16);
  const Tensor weight = integers({3, 9, 3, 3}, DType::kF16);
  const std::vector<float> expected = conv_on_card(x, weight).to_vector<float>();
  EXPECT_GT(cudnn_watch().runs_of_16_bits, 0);
  EXPECT_EQ(cudnn_watch().runs_of_f32, 0);
  cudnn_watch().refuses_16_bits = true;
  EXPECT_EQ(conv_on_card(x, weight).to_vector<float>(), expected);
  EXPECT_GT(cudnn_watch().runs_of_f32, 0) << "no 16-bit engine is left, so operands are widened";
}

// The gradient that reaches an f32 parameter through its 16-bit copy.
Tensor weight_gradient(const Tensor& x, const Tensor& param, std::int64_t groups, Device device) {
  Tensor leaf = param.to(device);
  leaf.set_requires_grad(true);
  const Tensor y = conv2d(x.to(device), cast(leaf, x.dtype()), {}, {.groups = groups});
  const Tensor total = sum(cast(y, DType::kF32));
  backward({&total, 1});
  return leaf.grad();
}

// Engines with a single f32 result are compiled with an operation after the convolution and do not
// support groups: operands of grouped convolutions are converted to f32.
TEST_F(Cudnn, F32GradientsOf16BitImagesAreTheSumsThemselves) {
  const Tensor x = integers({2, 16, 9, 8}, DType::kBf16);
  for (const std::int64_t groups : {1, 2}) {
    cudnn_watch() = {};
    const Tensor param = integers({4, 16 / groups, 3, 3}, DType::kF32);
    const Tensor grad = weight_gradient(x, param, groups, kCard);
    EXPECT_EQ(grad.dtype(), DType::kF32);
    EXPECT_EQ(grad.to_vector<float>(),
              weight_gradient(x, param, groups, kCpuDevice).to_vector<float>());
    EXPECT_EQ(cudnn_watch().runs_that_hand_on_sums > 0, groups == 1);
    EXPECT_EQ(cudnn_watch().runs_of_f32 > 0, groups > 1);
  }
}

// Odd channels have no engine, and those that are not a multiple of eight have one that is wrong.
TEST_F(Cudnn, ChannelsOf16BitsArePaddedForTheWeightsGradient) {
  for (const std::int64_t channels : {9, 12, 16}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      cudnn_watch() = {};
      const Tensor x = integers({2, channels, 9, 8}, dtype);
      const Tensor param = integers({4, channels, 3, 3}, DType::kF32);
      EXPECT_EQ(weight_gradient(x, param, 1, kCard).to_vector<float>(),
                weight_gradient(x, param, 1, kCpuDevice).to_vector<float>())
          << channels;
      EXPECT_EQ(cudnn_watch().runs_of_f32, 0) << "none is widened";
      EXPECT_GT(cudnn_watch().runs_that_hand_on_sums, 0);
    }
  }
}

// 16-bit values are exact in TF32, f32 values are not.
TEST_F(Cudnn, OnlyWidenedOperandsAreComputedInTf32UnlessItIsAllowed) {
  const Tensor x = randn({2, 8, 6, 6});
  const Tensor weight = randn({8, 8, 3, 3});
  conv_on_card(x, weight);
  EXPECT_EQ(cudnn_watch().runs_in_tf32, 0);
  cudnn_watch().refuses_16_bits = true;
  conv_on_card(cast(x, DType::kF16), cast(weight, DType::kF16));
  EXPECT_GT(cudnn_watch().runs_in_tf32, 0);
}

// The same problem with and without direct sums is two problems. Engines are tried when a problem
// is first met, and which one is then the fastest is not known: so sizes that no other test has.
TEST_F(Cudnn, DirectSumsAreNotComputedInTf32WhereThatIsAllowed) {
  const Tensor x = randn({2, 8, 11, 7});
  const Tensor weight = randn({8, 8, 3, 3});
  allow_tf32(true);
  {
    const ExactSums exact;
    conv_on_card(x, weight);
  }
  EXPECT_EQ(cudnn_watch().runs_in_tf32, 0);
  conv_on_card(x, weight);
  allow_tf32(false);
  EXPECT_GT(cudnn_watch().runs_in_tf32, 0);
}

}  // namespace
}  // namespace mezzo
