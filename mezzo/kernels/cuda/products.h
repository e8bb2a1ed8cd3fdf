// Matrix products that are part of another operation's kernel.
#pragma once

#include "mezzo/kernels/cuda/cublas_plan.h"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// Queues the product, without a bias, by what `matmul` uses: cuBLASLt, or tiles in shared memory
// where it has no algorithm or is disabled. p.result is p.dtype or f32.
void run_product(const Launch& launch, const Product& p, const void* a, const void* b, void* out);

}  // namespace mezzo::kernels::cuda
