// Tests which products of eight bits cuBLASLt computes on which card, and what the library refuses.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cuda/cublas_plan.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/scaled_matmul.h"
#include "tests/emulated_card/queue.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

using kernels::cuda::EightBitProduct;
using kernels::cuda::Product;

bool has_plan(const Product& product) {
  return kernels::cuda::find_plan(kernels::cuda::context_of(kCard), product) != nullptr;
}

// The kernel of a product [m, k] times the transpose of [n, k].
struct ProductKernel final : KernelListener {
  std::string name;
  void on_run(const KernelWork& work, double /*ms*/) override {
    if (std::string(work.op) == "scaled_matmul") name = work.kernel;
  }
};

std::string kernel_of(ScaleBy by, std::int64_t m, std::int64_t k, std::int64_t n,
                      DType a = DType::kE4m3, DType b = DType::kE4m3) {
  const ScaledTensor left = scaled_cast(ones({m, k}).to(kCard), {.dtype = a, .by = by});
  const ScaledTensor right = scaled_cast(ones({n, k}).to(kCard), {.dtype = b, .by = by});
  ProductKernel kernel;
  const ListenToKernels listening(kernel);
  scaled_matmul(left, right, {.transpose_b = true});
  return kernel.name;
}

TEST(EmulatedEightBits, CublasltComputesWhatTheCardHas) {
  const int capability = emulated_card::capability();
  const auto expected = [](bool by_library) {
    return by_library ? "cuda_cublaslt_fp8" : "cuda_widened";
  };
  EXPECT_EQ(kernel_of(ScaleBy::kTensor, 48, 64, 32), expected(capability >= 89));
  EXPECT_EQ(kernel_of(ScaleBy::kLine, 48, 64, 32), expected(capability == 90));
  EXPECT_EQ(kernel_of(ScaleBy::kBlock, 48, 64, 32), expected(capability >= 100));
  EXPECT_EQ(kernel_of(ScaleBy::kTensor, 5, 64, 32), expected(capability >= 89));
}

TEST(EmulatedEightBits, OthersAreWidened) {
  EXPECT_EQ(kernel_of(ScaleBy::kTensor, 48, 60, 32), "cuda_widened");
  EXPECT_EQ(kernel_of(ScaleBy::kTensor, 48, 64, 33), "cuda_widened");
  EXPECT_EQ(kernel_of(ScaleBy::kBlock, 48, 48, 32), "cuda_widened");
  EXPECT_EQ(kernel_of(ScaleBy::kTensor, 48, 64, 32, DType::kE5m2, DType::kE5m2), "cuda_widened");
}

TEST(EmulatedEightBits, TheLibraryRefusesWhatItsTablesLack) {
  if (emulated_card::capability() != 90)
    GTEST_SKIP() << "the card has another compute capability than 9.0";
  const Product fits{.m = 48,
                     .n = 32,
                     .k = 64,
                     .transpose_b = true,
                     .dtype = DType::kE4m3,
                     .result = DType::kBf16,
                     .eight_bits = EightBitProduct{}};
  EXPECT_TRUE(has_plan(fits));
  const auto refuses = [&](const auto& change) {
    Product other = fits;
    change(other);
    return !has_plan(other);
  };
  EXPECT_TRUE(refuses([](Product& p) { p.transpose_b = false; }));
  EXPECT_TRUE(refuses([](Product& p) { p.transpose_a = true; }));
  EXPECT_TRUE(refuses([](Product& p) { p.k = 40; }));
  EXPECT_TRUE(refuses([](Product& p) { p.n = 36; }));
  EXPECT_TRUE(refuses([](Product& p) {
    p.dtype = DType::kE5m2;
    p.eight_bits->dtype_b = DType::kE5m2;
  }));
  EXPECT_TRUE(refuses([](Product& p) { p.eight_bits->by = ScaleBy::kBlock; }));
  EXPECT_FALSE(refuses([](Product& p) { p.eight_bits->by = ScaleBy::kLine; }));
  EXPECT_FALSE(refuses([](Product& p) { p.dtype = DType::kE5m2; }));
  EXPECT_FALSE(refuses([](Product& p) { p.result = DType::kF32; }));
  EXPECT_FALSE(refuses([](Product& p) { p.has_bias = true; }));
}

}  // namespace
}  // namespace mezzo
