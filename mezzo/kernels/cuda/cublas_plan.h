// Matrix products by cuBLASLt. The algorithm is chosen once per problem.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo::kernels::cuda {

// What a product of two matrices of eight bits has besides.
struct EightBitProduct {
  DType dtype_b = DType::kE4m3;  // Product::dtype is that of a
  // How run_plan() gets the scales: kTensor: f32 [1] each. kLine: f32, one for each row of a and
  // each column of b. kBlock: e8m0, in the tiles of scaled_operand.cuh.
  ScaleBy by = ScaleBy::kTensor;

  bool operator==(const EightBitProduct&) const = default;
};

// out [m, n] = a [m, k] times b [k, n], row-major and dense, `batch` times; a and b may be stored
// transposed.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t batch = 1;
  std::int64_t a_step = 0, b_step = 0, out_step = 0;  // strides of the batch
  DType dtype = DType::kF32;                          // of a and b
  DType result = DType::kF32;
  bool has_bias = false;  // [n], in bias_dtype(), added to the f32 sums
  bool tf32 = false;
  std::optional<EightBitProduct> eight_bits{};
  int alignment = 16;  // of all pointers, in bytes

  bool operator==(const Product&) const = default;
};

// The dtype of the bias that cuBLASLt adds: the result's, but bf16 for f32 results of eight bits.
constexpr DType bias_dtype(const Product& product) {
  const bool is_narrower = product.eight_bits.has_value() && product.result == DType::kF32;
  return is_narrower ? DType::kBf16 : product.result;
}

// Where the numbers of a product are.
struct ProductData {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;  // null if there is none
  void* out = nullptr;
  const void* scales_a = nullptr;  // of eight bits; null otherwise
  const void* scales_b = nullptr;
};

class CublasPlan;

// The plan for a product, or null if cuBLASLt has no algorithm for it. Kept for the thread's life.
const CublasPlan* find_plan(Context& context, const Product& product);

// find_plan() for a product that had a plan. Throws DeviceError in the name of `op` if it has none
// now.
const CublasPlan& plan_again(Context& context, const Product& product, const char* op);

// Queues the product.
void run_plan(Context& context, const CublasPlan& plan, const ProductData& data);

}  // namespace mezzo::kernels::cuda
