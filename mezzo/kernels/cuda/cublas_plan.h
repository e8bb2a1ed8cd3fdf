// Matrix products by cuBLASLt. The algorithm is chosen once per problem.
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/cuda/context.h"

namespace mezzo::kernels::cuda {

// out [m, n] = a [m, k] times b [k, n], row-major and dense, `batch` times; a and b may be stored
// transposed.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t batch = 1;
  std::int64_t a_step = 0, b_step = 0, out_step = 0;  // strides of the batch
  DType dtype = DType::kF32;                          // of a and b
  DType result = DType::kF32;
  bool has_bias = false;  // [n], in the result's dtype, added to the f32 sums
  bool tf32 = false;
  int alignment = 16;  // of all pointers, in bytes

  bool operator==(const Product&) const = default;
};

class CublasPlan;

// The plan for a product, or null if cuBLASLt has no algorithm for it. Kept for the thread's life.
const CublasPlan* find_plan(Context& context, const Product& product);

// find_plan() for a product that had a plan. Throws DeviceError in the name of `op` if it has none
// now.
const CublasPlan& plan_again(Context& context, const Product& product, const char* op);

// Queues the product. `bias` is null if there is none.
void run_plan(Context& context, const CublasPlan& plan, const void* a, const void* b,
              const void* bias, void* out);

}  // namespace mezzo::kernels::cuda
