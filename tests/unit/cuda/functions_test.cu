// Tests on the host the functions that kernels compute.
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/kernels/cuda/rounding.cuh"

namespace mezzo::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CudaPhilox, IsTheStreamOfTheCpu) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 0x123456789abcdefULL}) {
    for (const std::uint64_t block : {0ULL, 7ULL, 0xffffffffULL, 0x100000003ULL}) {
      std::uint32_t words[4];
      philox_block(seed, block, words);
      Generator generator;
      generator.set_position({seed, 4 * block});
      for (const std::uint32_t word : words) EXPECT_EQ(word, generator.next());
    }
  }
}

double normal_part(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(CudaFunctions, AreCloseToDouble) {
  for (float x = -20; x < 20; x += 0.037F) {
    const double v = x;
    const double density = std::exp(-0.5 * v * v) / std::sqrt(2 * 3.14159265358979323846);
    EXPECT_NEAR(functions::sigmoid(x), 1 / (1 + std::exp(-v)), 1e-7);
    const double s = 1 / (1 + std::exp(-v));
    EXPECT_NEAR(functions::silu(x), v * s, 2e-7 * std::max(1.0, std::abs(v)));
    EXPECT_NEAR(functions::silu_derivative(x), s + v * s * (1 - s), 4e-7);
    EXPECT_NEAR(functions::gelu(x), v * normal_part(v), 2e-7 * std::max(1.0, std::abs(v)));
    EXPECT_NEAR(functions::gelu_derivative(x), normal_part(v) + v * density, 4e-7);
    const double inner = kGeluScale * (v + kGeluCubic * v * v * v);
    EXPECT_NEAR(functions::gelu_tanh(x), 0.5 * v * (1 + std::tanh(inner)),
                4e-7 * std::max(1.0, std::abs(v)));
    const double slope = kGeluScale * (1 + 3 * kGeluCubic * v * v);
    const double tanh = std::tanh(inner);
    EXPECT_NEAR(functions::gelu_tanh_derivative(x),
                0.5 * (1 + tanh) + 0.5 * v * (1 - tanh * tanh) * slope, 2e-6);
  }
}

TEST(CudaFunctions, HaveTheirLimits) {
  EXPECT_EQ(functions::sigmoid(-kInfinity), 0);
  EXPECT_EQ(functions::sigmoid(kInfinity), 1);
  for (const auto function : {functions::gelu, functions::gelu_tanh, functions::silu}) {
    EXPECT_EQ(function(-kInfinity), 0);
    EXPECT_EQ(function(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(function(NAN)));
  }
  for (const auto function :
       {functions::gelu_derivative, functions::gelu_tanh_derivative, functions::silu_derivative}) {
    EXPECT_EQ(function(-kInfinity), 0);
    EXPECT_EQ(function(kInfinity), 1);
    EXPECT_TRUE(std::isnan(function(NAN)));
  }
  EXPECT_EQ(functions::bounded_log(0), -100);
  EXPECT_EQ(functions::bounded_log_of_rest(1), -100);
  EXPECT_EQ(functions::logit_loss(200, 1), 0);
  EXPECT_EQ(functions::logit_loss(-200, 1), 200);
}

// The mean over all 65536 random words.
template <class T>
double mean_of_dithered(float v) {
  double sum = 0;
  for (std::uint32_t random = 0; random < 65536; ++random) {
    const float rounded = dither(v, random, T());
    EXPECT_EQ(widen(narrow<T>(rounded)), rounded) << "is one of the dtype's numbers";
    sum += rounded;
  }
  return sum / 65536;
}

TEST(CudaRounding, DitheringLosesNothingOnAverage) {
  for (const float v : {1.0009765F, -3.14159F, 0.001F}) {
    EXPECT_NEAR(mean_of_dithered<BFloat16>(v), v, std::abs(v) * 0x1p-22);
    EXPECT_NEAR(mean_of_dithered<Float16>(v), v, std::abs(v) * 0x1p-22);
  }
  EXPECT_NEAR(mean_of_dithered<Float16>(1.3e-6F), 1.3e-6, 0x1p-40);
  EXPECT_NEAR(mean_of_dithered<Float16>(2e-8F), 2e-8, 0x1p-40);
}

TEST(CudaRounding, KeepsWhatItCutsOff) {
  const float sum = 1.001F;
  EXPECT_EQ(widen(narrow<BFloat16>(sum)) + cut_off<BFloat16>(sum), sum);
  EXPECT_EQ(widen(narrow<Float16>(sum)) + cut_off<Float16>(sum), sum);
  EXPECT_EQ(cut_off<Float16>(70000.0F), 0) << "infinite once rounded";
  EXPECT_EQ(cut_off<BFloat16>(kInfinity), 0);
}

}  // namespace
}  // namespace mezzo::kernels::cuda
