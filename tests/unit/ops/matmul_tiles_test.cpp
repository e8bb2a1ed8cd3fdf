// Tests the tile kernels of matmul and linear, on either unit, against products in double.
#include "mezzo/kernels/cpu/gemm/matmul_tiles.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::fault;
using test::plain_copy;
using test::random_tensor;
using test::Threads;

constexpr std::int64_t kSizes[] = {1, 15, 16, 17, 31, 32, 33, 63, 65, 100, 200};

// Records the kernels of matmul and linear that run while it exists.
class Kernels final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    const std::string op = work.op;
    if (op == "matmul" || op == "linear") names.emplace_back(work.kernel);
  }
  std::vector<std::string> names;

 private:
  ListenToKernels guard_{*this};
};

class MatmulTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::bf16_unit()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  }
};

// The units of this CPU: more than one where the kernel could use either.
std::vector<kernels::Bf16Unit> units() {
  std::vector<kernels::Bf16Unit> units;
  if (kernels::has_tiles()) units.push_back(kernels::Bf16Unit::kTiles);
  if (has_bf16_dot()) units.push_back(kernels::Bf16Unit::kDots);
  return units;
}

// Multiplies two matrices with the kernel itself.
Tensor product(const Tensor& a, const Tensor& b, const MatmulOptions& options,
               kernels::Bf16Unit unit) {
  const Attrs attrs = MatmulAttrs{.transpose_a = options.transpose_a,
                                  .transpose_b = options.transpose_b,
                                  .f32_result = options.f32_result};
  const Tensor* const inputs[] = {&a, &b};
  Tensor out = empty({a.size(options.transpose_a ? 1 : 0), b.size(options.transpose_b ? 0 : 1)},
                     options.f32_result ? DType::kF32 : DType::kBf16);
  kernels::run_matmul_tiles({inputs, {&out, 1}, attrs}, unit);
  return out;
}

Tensor wide(const Tensor& x) { return plain_copy(x).astype(DType::kF64); }

// The same matrix with its columns contiguous in memory.
Tensor in_the_other_order(const Tensor& x) { return plain_copy(permute(x, {1, 0})); }

void check_all_forms(std::int64_t m, std::int64_t k, std::int64_t n) {
  const Tensor a = random_tensor({m, k}, 1, DType::kBf16);
  const Tensor b = random_tensor({k, n}, 2, DType::kBf16);
  const Tensor want = matmul(wide(a), wide(b));
  const Tensor lefts[] = {a, in_the_other_order(a)};
  const Tensor rights[] = {b, in_the_other_order(b)};
  for (const kernels::Bf16Unit unit : units()) {
    for (int form = 0; form < 8; ++form) {
      const bool transpose_a = (form & 1) != 0;
      const bool transpose_b = (form & 2) != 0;
      const Tensor got = product(lefts[transpose_a ? 1 : 0], rights[transpose_b ? 1 : 0],
                                 {transpose_a, transpose_b, (form & 4) != 0}, unit);
      ASSERT_EQ(fault(got, want, k), "")
          << m << " x " << k << " x " << n << (transpose_a ? ", a transposed" : "")
          << (transpose_b ? ", b transposed" : "");
    }
  }
}

TEST_F(MatmulTiles, AreTheProductInEveryShapeAndForm) {
  for (const std::int64_t m : kSizes) {
    for (const std::int64_t k : kSizes) {
      for (const std::int64_t n : kSizes) check_all_forms(m, k, n);
    }
  }
}

// The tile unit takes all, and so do dot products on Arm; elsewhere these take what is read along
// its lines, in tiles that are not mostly empty.
TEST_F(MatmulTiles, AreTakenForTheFormsThatTheUnitSuits) {
  const Kernels kernels;
  const Tensor a = random_tensor({40, 90}, 1, DType::kBf16);
  const Tensor b = random_tensor({45, 90}, 2, DType::kBf16);
  const Tensor row = random_tensor({1, 90}, 3, DType::kBf16);
  matmul(a, b, {.transpose_b = true});
  linear(a, b);
  matmul(in_the_other_order(a), b, {.transpose_a = true, .transpose_b = true});
  matmul(a, in_the_other_order(b));
  linear(row, b);
  const std::string other = kernels::tiles_take_all() ? "cpu_bf16_gemm" : "cpu_onednn";
  EXPECT_EQ(kernels.names,
            (std::vector<std::string>{"cpu_bf16_gemm", "cpu_bf16_gemm", other, other, other}));
}

// Columns in several chunks, rows in several groups, and both.
TEST_F(MatmulTiles, LargerThanTheCopiesThatAreMadeAtOnce) {
  const Threads one(1);
  check_all_forms(40, 1000, 700);
  check_all_forms(700, 1000, 40);
  check_all_forms(530, 1990, 550);
}

// Sums in several runs of the inner axis, the last one shorter.
TEST_F(MatmulTiles, LongSums) {
  check_all_forms(20, 5000, 100);
  check_all_forms(1, 2080, 33);
  check_all_forms(70, 4097, 17);
}

TEST_F(MatmulTiles, LinearAddsABiasOfEitherType) {
  const Kernels kernels;
  for (const std::int64_t rows : kSizes) {
    for (const std::int64_t out : kSizes) {
      const Tensor x = random_tensor({rows, 65}, 1, DType::kBf16);
      const Tensor weight = random_tensor({out, 65}, 2, DType::kBf16);
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        const Tensor bias = random_tensor({out}, 3, dtype);
        const Tensor want = linear(wide(x), wide(weight), wide(bias));
        ASSERT_EQ(fault(linear(x, weight, bias), want, 66), "") << rows << " to " << out;
        ASSERT_EQ(fault(linear(x, permute(in_the_other_order(weight), {1, 0}), bias), want, 66), "")
            << rows << " to " << out;
      }
      ASSERT_EQ(fault(linear(x, weight), linear(wide(x), wide(weight)), 65), "");
    }
  }
  EXPECT_THAT(kernels.names, testing::Contains("cpu_bf16_gemm"));
  for (const std::string& name : kernels.names) {
    EXPECT_TRUE(name == "cpu_bf16_gemm" || name == "reference" || !kernels::tiles_take_all())
        << name;
  }
}

TEST_F(MatmulTiles, BatchesAndBroadcasting) {
  const Shape lefts[] = {{3, 30, 60}, {30, 60}, {2, 1, 30, 60}, {2, 3, 30, 60}, {1, 3, 1, 60}};
  const Shape rights[] = {{3, 60, 33}, {60, 33}, {2, 3, 60, 33}, {1, 1, 60, 33}, {2, 1, 60, 1}};
  const Kernels kernels;
  for (const Shape& left : lefts) {
    for (const Shape& right : rights) {
      const Tensor a = random_tensor(left, 1, DType::kBf16);
      const Tensor b = random_tensor(right, 2, DType::kBf16);
      EXPECT_EQ(fault(matmul(a, b), matmul(wide(a), wide(b)), 60), "") << concat(left, " ", right);
    }
  }
  const Tensor x = random_tensor({2, 5, 3, 48}, 1, DType::kBf16);
  const Tensor weight = random_tensor({30, 48}, 2, DType::kBf16);
  for (const Tensor& view : {x, permute(x, {1, 0, 2, 3}), permute(x, {2, 1, 0, 3})}) {
    EXPECT_EQ(fault(linear(view, weight), linear(wide(view), wide(weight)), 48), "");
  }
  EXPECT_THAT(kernels.names, testing::Contains("cpu_bf16_gemm"));
  for (const std::string& name : kernels.names) {
    EXPECT_TRUE(name == "cpu_bf16_gemm" || name == "reference" || !kernels::tiles_take_all())
        << name;
  }
}

TEST_F(MatmulTiles, ViewsWithOtherNumbersAround) {
  // Memory around a view is not finite and must not be read.
  const Tensor block = full({90, 110}, INFINITY, DType::kBf16);
  const Tensor view = alias(block, {50, 70}, {110, 1}, 330 + 7);
  copy_elements(random_tensor({50, 70}, 1), view);
  for (const std::int64_t n : {1, 20, 50, 70}) {
    const Tensor right = random_tensor({70, n}, 2, DType::kBf16);
    const Tensor left = random_tensor({n, 50}, 3, DType::kBf16);
    EXPECT_EQ(fault(matmul(view, right), matmul(wide(view), wide(right)), 70), "");
    EXPECT_EQ(fault(matmul(left, view), matmul(wide(left), wide(view)), 50), "");
    EXPECT_EQ(
        fault(matmul(right, view, {true, true}), matmul(wide(right), wide(view), {true, true}), 70),
        "");
    EXPECT_EQ(
        fault(matmul(view, left, {true, true}), matmul(wide(view), wide(left), {true, true}), 50),
        "");
  }
}

TEST_F(MatmulTiles, OneRowThatStandsForMany) {
  const Tensor row = random_tensor({1, 40}, 1, DType::kBf16);
  const Tensor rows = expand(row, {50, 40});
  const Tensor right = random_tensor({40, 33}, 2, DType::kBf16);
  EXPECT_EQ(fault(matmul(rows, right), matmul(wide(rows), wide(right)), 40), "");
  EXPECT_EQ(
      fault(matmul(right, rows, {true, true}), matmul(wide(right), wide(rows), {true, true}), 40),
      "");
}

TEST_F(MatmulTiles, TheNumberOfThreadsChangesNothing) {
  struct Case {
    Shape a, b;
    MatmulOptions options;
  };
  const Case cases[] = {{{64, 784}, {512, 784}, {.transpose_b = true}},
                        {{64, 512}, {512, 510}, {}},
                        {{64, 500}, {64, 784}, {.transpose_a = true, .f32_result = true}},
                        {{5, 100, 60}, {5, 60, 90}, {}},
                        {{90, 3000}, {110, 3000}, {.transpose_b = true}},
                        {{3000, 90}, {3000, 110}, {.transpose_a = true, .f32_result = true}},
                        {{700, 33}, {33, 17}, {}}};
  for (const Case& c : cases) {
    const Tensor a = random_tensor(c.a, 1, DType::kBf16);
    const Tensor b = random_tensor(c.b, 2, DType::kBf16);
    std::vector<Doubles> results;
    for (const int threads : {1, 2, 3}) {
      const Threads guard(threads);
      results.push_back(matmul(a, b, c.options).to_vector<double>());
    }
    EXPECT_EQ(results[0], results[1]) << concat(c.a, " ", c.b);
    EXPECT_EQ(results[0], results[2]) << concat(c.a, " ", c.b);
  }
}

// NaN and infinity reach the rows and columns to which they belong, and no others.
TEST_F(MatmulTiles, NumbersThatAreNotFinitePropagate) {
  const std::int64_t shapes[][3] = {{33, 33, 47}, {16, 64, 16}, {3, 31, 70}, {70, 50, 5}};
  for (const auto& [m, k, n] : shapes) {
    const Tensor a = random_tensor({m, k}, 1, DType::kBf16);
    const Tensor b = random_tensor({k, n}, 2, DType::kBf16);
    a.mutable_data<BFloat16>()[k - 1] = BFloat16(INFINITY);
    a.mutable_data<BFloat16>()[(m - 1) * k] = BFloat16(NAN);
    b.mutable_data<BFloat16>()[(k - 1) * n + n / 2] = BFloat16(0);
    b.mutable_data<BFloat16>()[n - 1] = BFloat16(-INFINITY);
    const Tensor want = matmul(wide(a), wide(b));
    EXPECT_EQ(fault(matmul(a, b), want, k), "");
    EXPECT_EQ(fault(matmul(in_the_other_order(a), b, {true, false, true}), want, k), "");
    EXPECT_EQ(fault(matmul(a, in_the_other_order(b), {false, true}), want, k), "");
    EXPECT_EQ(
        fault(matmul(in_the_other_order(a), in_the_other_order(b), {true, true, true}), want, k),
        "");
  }
}

// On x86-64, dot products are no faster than oneDNN's where there is much to multiply.
TEST_F(MatmulTiles, LeaveToOthersWhatTheyDoNotTake) {
  const Kernels kernels;
  const Tensor large = random_tensor({300, 300}, 1, DType::kBf16);
  matmul(large, large, {.transpose_b = true});
  const Tensor every_other = alias(large, {20, 30}, {300, 2}, 0);
  matmul(every_other, every_other, {.transpose_b = true});
  const std::string taker = kernels::tiles_take_all() ? "cpu_bf16_gemm" : "cpu_onednn";
  EXPECT_EQ(kernels.names, (std::vector<std::string>{taker, taker}));
}

// Operands that are contiguous along neither axis: slices with steps, in batches of several forms,
// and expanded values.
TEST_F(MatmulTiles, CopyWhatCannotBeReadWhereItIs) {
  const Tensor storage = random_tensor({90000}, 1, DType::kBf16);
  const Tensor left = alias(storage, {3, 34, 63}, {9000, 140, 2}, 1);
  const Tensor one = alias(storage, {3, 1, 63}, {9000, 7, 2}, 1);
  const Tensor right = alias(storage, {63, 41}, {3, 200}, 5);
  const Tensor many = alias(storage, {3, 63, 41}, {1, 3, 200}, 5);
  const Tensor number = expand(random_tensor({1, 1}, 2, DType::kBf16), {63, 65});
  for (const auto& [a, b] : {std::pair{left, right},
                             {one, right},
                             {left, many},
                             {one, many},
                             {left, number},
                             {alias(left, {63}, {2}, 1), right}}) {
    EXPECT_EQ(fault(matmul(a, b), matmul(wide(a), wide(b)), 63), "") << concat(a, b);
  }
}

// Some of oneDNN's products of such lengths crash the program with AMX.
TEST_F(MatmulTiles, GradientsOfSumsOfAnyLength) {
  for (const std::int64_t size : {31, 63, 95, 127, 2047}) {
    const Tensor x = random_tensor({65, 10}, 1, DType::kBf16).set_requires_grad(true);
    const Tensor weight = random_tensor({size, 10}, 2, DType::kBf16).set_requires_grad(true);
    sum(linear(x, weight)).backward();
    const Tensor ones_like_y = expand(ones({1, 1}, DType::kF64), {65, size});
    EXPECT_EQ(fault(x.grad(), matmul(ones_like_y, wide(weight.detach())), size), "") << size;
    EXPECT_EQ(fault(weight.grad(), matmul(transpose(ones_like_y), wide(x.detach())), 65), "")
        << size;
  }
}

}  // namespace
}  // namespace mezzo
