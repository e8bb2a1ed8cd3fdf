// Compares strided bf16 convolutions of all kinds of shapes with f32 ones of the same values. Some
// of oneDNN's kernels overwrite other memory or skip rows there (kernels/cpu/conv/defects.h).
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::fault;
using test::random_tensor;

struct StridedCase {
  Shape x, weight;
  Conv2dOptions options;
};

// Windows lower and narrower than the stride. Padding as high as the window. Thread shares that
// begin within an image. Images narrower than the window. More than one chunk of channels.
std::vector<StridedCase> strided_cases() {
  return {
      {{2, 41, 25, 26}, {73, 41, 1, 4}, {.stride = {4, 3}}},
      {{2, 125, 35, 40}, {125, 125, 1, 3}, {.stride = 2, .padding = {0, 1}}},
      {{8, 16, 33, 33}, {32, 16, 2, 2}, {.stride = 4}},
      {{2, 128, 30, 9}, {16, 128, 3, 3}, {.stride = 2, .padding = 1}},
      {{3, 128, 21, 21}, {80, 128, 5, 5}, {.stride = 4}},
      {{3, 52, 33, 6}, {16, 52, 6, 1}, {.stride = {1, 4}}},
      {{1, 32, 22, 7}, {12, 32, 1, 3}, {.stride = {2, 1}, .padding = Padding2d(0, 1, 1, 0)}},
      {{5, 116, 40, 2}, {70, 116, 6, 5}, {.stride = 4, .padding = 2}},
      {{1, 192, 49, 23}, {128, 192, 5, 5}, {.stride = 4, .padding = Padding2d(0, 2, 0, 2)}},
      {{2, 64, 16, 16}, {128, 64, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 3, 40, 40}, {64, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {{2, 96, 9, 9}, {32, 96, 1, 1}, {.stride = 2}},
      {{2, 54, 6, 1}, {54, 1, 3, 5}, {.stride = 2, .padding = {1, 2}, .groups = 54}},
      {{4, 11, 3, 3}, {11, 1, 3, 3}, {.stride = 4, .padding = 1, .groups = 11}},
      {{2, 111, 8, 3},
       {37, 3, 6, 3},
       {.stride = {1, 4}, .padding = Padding2d(1, 2, 2, 4), .groups = 37}},
      {{4, 54, 11, 2},
       {27, 2, 2, 2},
       {.stride = {2, 4}, .padding = Padding2d(0, 0, 1, 1), .groups = 27}},
  };
}

// Fills the memory that will be allocated next with infinities.
void fill_free_memory() {
  std::vector<Tensor> blocks;
  for (std::int64_t size = 1 << 6; size <= 1 << 21; size *= 2) {
    blocks.push_back(full({size}, std::numeric_limits<double>::infinity()));
  }
}

TEST(StridedConv2d, IsThatOfTheSameNumbersInF32) {
  for (const int count : {1, 2, 3}) {
    const test::Threads threads(count);
    for (const StridedCase& c : strided_cases()) {
      Tensor x = to_format(random_tensor(c.x, 1, DType::kBf16), Format::kChannelsLast);
      Tensor weight = random_tensor(c.weight, 2, DType::kBf16);
      const std::vector<float> before = x.to_vector<float>();
      Tensor wide_x = x.astype(DType::kF32);
      Tensor wide_weight = weight.astype(DType::kF32);
      for (Tensor* leaf : {&x, &weight, &wide_x, &wide_weight}) {
        *leaf = leaf->detach().set_requires_grad(true);
      }
      fill_free_memory();
      const Tensor y = conv2d(x, weight, {}, c.options);
      const Tensor wide_y = conv2d(wide_x, wide_weight, {}, c.options);
      const Tensor grad = random_tensor(y.shape(), 3, DType::kBf16);
      y.backward(grad);
      wide_y.backward(grad.astype(DType::kF32));
      const std::string name = concat(c.x, c.weight, " on ", count);
      EXPECT_EQ(x.to_vector<float>(), before) << name;
      // Twice the terms, since both are sums in f32.
      EXPECT_EQ(fault(y, wide_y, 2 * c.weight[1] * c.weight[2] * c.weight[3]), "") << name;
      EXPECT_EQ(fault(x.grad(), wide_x.grad(), 2 * c.weight[0] * c.weight[2] * c.weight[3]), "")
          << name;
      EXPECT_EQ(fault(weight.grad(), wide_weight.grad(), 2 * y.size(0) * y.size(2) * y.size(3)), "")
          << name;
    }
  }
}

}  // namespace
}  // namespace mezzo
