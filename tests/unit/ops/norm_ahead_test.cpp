// Tests statistics for a batch normalisation that the preceding convolution has computed.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::random_tensor;

struct NormAheadCase {
  Shape x;
  std::int64_t out_channels;
  float offset = 0;  // of x, and so of the means
  bool has_bias = false;
};

// One chunk of rows and several, the last one whole or partial. First rows of more than a chunk.
// Parts without a single whole chunk. Means far from zero.
std::vector<NormAheadCase> norm_ahead_cases() {
  return {
      {{1, 64, 1, 7}, 256},   {{1, 64, 16, 16}, 256},      {{2, 64, 16, 16}, 256},
      {{3, 64, 13, 11}, 256}, {{2, 128, 56, 56}, 288},     {{5, 64, 9, 33}, 512},
      {{4, 32, 96, 96}, 256}, {{3, 64, 20, 21}, 320, 100}, {{2, 64, 16, 17}, 256, 0, true},
  };
}

class NormAhead : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_fast_bf16()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  }

  NoGrad no_grad_;
};

// The convolution of a case, and the statistics if they were requested.
struct Convolved {
  Tensor y;
  NormStatistics found{};
};

Convolved convolved(const NormAheadCase& c, DType dtype = DType::kBf16, bool asks = true) {
  const Tensor x = random_tensor(c.x, 1);
  auto* numbers = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) numbers[i] += c.offset;
  const Tensor weight = random_tensor({c.out_channels, c.x[1], 1, 1}, 2, dtype);
  Convolved result;
  const FindStatistics find(asks ? &result.found : nullptr);
  const Tensor bias = c.has_bias ? random_tensor({c.out_channels}, 3, dtype) : Tensor();
  result.y = conv2d(cast(x, dtype), weight, bias);
  return result;
}

TEST_F(NormAhead, FindsTheBitsThatTheNormFinds) {
  for (const int count : {1, 2, 3, 7}) {
    const test::Threads threads(count);
    for (const NormAheadCase& c : norm_ahead_cases()) {
      const Convolved ahead = convolved(c);
      ASSERT_TRUE(ahead.found.mean.defined()) << concat(c.x);
      const BatchNormResult norm = batch_norm(ahead.y, {}, {}, {.training = true});
      EXPECT_EQ(ahead.found.mean.to_vector<float>(), norm.mean.to_vector<float>()) << concat(c.x);
      EXPECT_EQ(ahead.found.var.to_vector<float>(), norm.var.to_vector<float>()) << concat(c.x);
    }
  }
}

TEST_F(NormAhead, LeavesTheResultAsItIs) {
  for (const NormAheadCase& c : norm_ahead_cases()) {
    const Convolved alone = convolved(c, DType::kBf16, false);
    EXPECT_FALSE(alone.found.mean.defined());
    EXPECT_TRUE(convolved(c).y.to_vector<float>() == alone.y.to_vector<float>()) << concat(c.x);
  }
}

TEST_F(NormAhead, CanBeSwitchedOff) {
  disable_kernels({"cpu_norm_ahead"});
  EXPECT_FALSE(convolved({{3, 64, 13, 11}, 256}).found.mean.defined());
  disable_kernels({});
  EXPECT_TRUE(convolved({{3, 64, 13, 11}, 256}).found.mean.defined());
}

// No statistics are computed where rows of the norm are several pixels, or the weight is large.
TEST_F(NormAhead, FindsNothingInOtherConvolutions) {
  EXPECT_FALSE(convolved({{3, 64, 13, 11}, 128}).found.mean.defined());
  EXPECT_FALSE(convolved({{3, 512, 4, 4}, 2048}).found.mean.defined());
  EXPECT_FALSE(convolved({{3, 64, 13, 11}, 256}, DType::kF32).found.mean.defined());
}

// Given statistics are used as they are, even by calls that only need statistics.
TEST(NormAheadGiven, IsWhatTheNormNormalisesBy) {
  const NoGrad no_grad;
  const Tensor x = random_tensor({4, 3, 5, 5}, 3);
  const NormStatistics given{random_tensor({3}, 4), ones({3})};
  const BatchNormResult own = batch_norm(x, {}, {}, {.training = true});
  const GiveStatistics give(given);
  const BatchNormResult norm = batch_norm(x, {}, {}, {.training = true});
  EXPECT_EQ(norm.mean.to_vector<float>(), given.mean.to_vector<float>());
  EXPECT_EQ(norm.var.to_vector<float>(), given.var.to_vector<float>());
  const BatchNormOptions by_given{
      .training = false, .running_mean = given.mean, .running_var = given.var};
  EXPECT_EQ(norm.y.to_vector<float>(), batch_norm(x, {}, {}, by_given).y.to_vector<float>());
  EXPECT_NE(norm.y.to_vector<float>(), own.y.to_vector<float>());
  const NormStatistics none;
  const GiveStatistics nothing(none);
  EXPECT_EQ(batch_norm(x, {}, {}, {.training = true}).y.to_vector<float>(),
            own.y.to_vector<float>());
}

}  // namespace
}  // namespace mezzo
