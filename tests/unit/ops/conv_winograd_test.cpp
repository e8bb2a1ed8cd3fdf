// Winograd's method for 3x3 kernels against plain sums.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/ops/call.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatch.h"
#include "mezzo/ops/kernel_listener.h"
#include "mezzo/ops/registry.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/plain_grad_weight.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/ops/winograd_bound.h"

namespace mezzo {
namespace {

using test::random_tensor;
using test::WinogradTransforms;

constexpr Sides kOne{1, 1, 1, 1};

class SeeKernel final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    seen |= std::strcmp(work.kernel, "cpu_winograd") == 0;
  }
  bool seen = false;
};

// The result, or an undefined tensor if Winograd's method did not make it.
Tensor by_winograd(const char* op, const Tensor& a, const Tensor& b, const Attrs& attrs) {
  SeeKernel see;
  const ListenToKernels listen(see);
  const Tensor none;
  const Tensor* const all[] = {&a, &b, &none};
  const bool has_bias = std::strcmp(op, "conv2d") == 0;
  const Tensor result = call(*find_op(op), Inputs(all, has_bias ? 3 : 2), attrs)[0];
  return see.seen ? result : none;
}

// One number of the convolution of x with the weight, one pixel of padding around.
double plain_sum(const Tensor& x, const Tensor& weight, const Shape& at) {
  const Shape& s = x.shape();
  double sum = 0;
  for (std::int64_t i = 0; i < 9 * s[1]; ++i) {
    const std::int64_t h = at[2] - 1 + i / 3 % 3;
    const std::int64_t w = at[3] - 1 + i % 3;
    if (h < 0 || h >= s[2] || w < 0 || w >= s[3]) continue;
    const std::int64_t place = ((at[0] * s[1] + i / 9) * s[2] + h) * s[3] + w;
    sum += static_cast<double>(x.data<float>()[place]) * weight.data<float>()[at[1] * 9 * s[1] + i];
  }
  return sum;
}

// Roundings on the way to a result: of products and sums of two transforms along two axes (six
// numbers each) before `terms` products are added up, and of the third transform after it.
double roundings(std::int64_t terms) { return static_cast<double>(terms) + 3 * 2 * 2 * 6; }

// The weight of the convolution that computes the gradient by x from that of y.
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

constexpr int kTile = WinogradTransforms::kResults;

// The tile of `got` that begins at `first` against the convolution of x with the weight.
void expect_tile_near(const Tensor& got, const Tensor& x, const Tensor& weight,
                      const Shape& first) {
  const test::Matrix bound = test::winograd_bound({}, x, weight, first);
  const Shape& s = got.shape();
  const std::vector<float> values = slice(got, 0, first[0], first[0] + 1).to_vector<float>();
  for (int i = 0; i < kTile * kTile; ++i) {
    const Shape at{first[0], first[1], first[2] + i / kTile, first[3] + i % kTile};
    if (at[2] >= s[2] || at[3] >= s[3]) continue;
    const auto place = static_cast<std::size_t>((at[1] * s[2] + at[2]) * s[3] + at[3]);
    ASSERT_NEAR(values[place], plain_sum(x, weight, at),
                roundings(x.size(1)) * 0x1p-24 * bound(i / kTile, i % kTile))
        << concat(at);
  }
}

// Every 29th channel of the last image.
void expect_near(const Tensor& got, const Tensor& x, const Tensor& weight) {
  const Shape& s = got.shape();
  for (std::int64_t o = 0; o < s[1]; o += 29) {
    for (std::int64_t row = 0; row < s[2]; row += kTile) {
      for (std::int64_t column = 0; column < s[3]; column += kTile) {
        expect_tile_near(got, x, weight, {s[0] - 1, o, row, column});
      }
    }
  }
}

// The gradient of the weight, some pairs of channels.
void expect_weight_near(const Tensor& got, const Tensor& grad, const Tensor& x,
                        const Conv2dAttrs& conv) {
  const WinogradTransforms transforms;
  const Tensor wide_grad = cast(grad, DType::kF64);
  const Tensor wide_x = cast(x, DType::kF64);
  const std::int64_t tiles = x.size(0) * ((x.size(2) + 3) / 4) * ((x.size(3) + 3) / 4);
  for (std::int64_t i = 0; i < got.numel(); i += 9 * 509) {
    const Shape first = test::place_of_weight(got.shape(), i);
    const test::Matrix bound = test::winograd_weight_bound(transforms, grad, x, first[0], first[1]);
    for (int tap = 0; tap < 9; ++tap) {
      const Shape at{first[0], first[1], tap / 3, tap % 3};
      ASSERT_NEAR(got.data<float>()[i + tap],
                  test::plain_grad_weight(conv, wide_grad, wide_x, at).value,
                  roundings(tiles) * 0x1p-24 * bound(tap / 3, tap % 3))
          << concat(at);
    }
  }
}

struct Case {
  std::int64_t n, in, out, height, width;
};
// Whole tiles, and parts of tiles.
constexpr Case kCases[] = {{8, 64, 64, 16, 16}, {9, 64, 96, 15, 17}, {7, 128, 64, 14, 21}};

TEST(ConvWinograd, ResultsAndGradientsAreWithinTheBoundOfItsTransforms) {
  if (!cpu_features().avx512) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const Case& c : kCases) {
    const Tensor x = random_tensor({c.n, c.in, c.height, c.width}, 1);
    const Tensor weight = random_tensor({c.out, c.in, 3, 3}, 2);
    const Tensor grad = random_tensor({c.n, c.out, c.height, c.width}, 3);
    const Conv2dAttrs conv{.padding = kOne};
    const Tensor y = by_winograd("conv2d", x, weight, conv);
    ASSERT_TRUE(y.defined());
    expect_near(y, x, weight);

    const Conv2dGradAttrs by_x{conv, {c.height, c.width}};
    const Tensor grad_x = by_winograd("conv2d_grad_input", grad, weight, by_x);
    ASSERT_TRUE(grad_x.defined());
    expect_near(grad_x, grad, turned(weight));

    const Conv2dGradAttrs by_weight{conv, 3};
    const Tensor grad_weight = by_winograd("conv2d_grad_weight", grad, x, by_weight);
    ASSERT_TRUE(grad_weight.defined());
    expect_weight_near(grad_weight, grad, x, conv);
  }
}

// f16 is computed on f32 copies, by the method that f32 takes.
TEST(ConvWinograd, CanBeSwitchedOffForF16Too) {
  const Tensor x = random_tensor({8, 64, 16, 16}, 1, DType::kF16);
  const Tensor weight = random_tensor({64, 64, 3, 3}, 2, DType::kF16);
  const Tensor none;
  const auto convolved = [&](DType dtype) {
    const Tensor wide_x = cast(x, dtype);
    const Tensor wide_weight = cast(weight, dtype);
    const Tensor* const all[] = {&wide_x, &wide_weight, &none};
    const Tensor y = call(*find_op("conv2d"), all, Conv2dAttrs{.padding = kOne})[0];
    return cast(y, DType::kF16).to_vector<float>();
  };
  const std::vector<float> fast = convolved(DType::kF16);
  EXPECT_TRUE(fast == convolved(DType::kF32));
  disable_kernels({"cpu_winograd"});
  const std::vector<float> direct = convolved(DType::kF16);
  const std::vector<float> direct_f32 = convolved(DType::kF32);
  disable_kernels({});
  EXPECT_TRUE(direct == direct_f32);
  EXPECT_TRUE(!cpu_features().avx512 || direct != fast);
}

}  // namespace
}  // namespace mezzo
