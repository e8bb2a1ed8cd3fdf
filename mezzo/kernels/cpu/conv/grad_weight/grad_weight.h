// The gradient of a convolution by its weight with kernels of our own: twice as fast as oneDNN's.
#pragma once

#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

namespace grad_weight {

// The products that this CPU does best for images of that dtype.
Products products_for(DType dtype);
// The problem of a call of conv2d_grad_weight.
Problem problem_of(const KernelArgs& args, Products products);

}  // namespace grad_weight

// Whether the kernel takes this call of conv2d_grad_weight: 16-bit images, groups of 1, at least 8
// channels on both sides (with AMX, a few of x), and AVX2; of f32 images those that other kernels
// are slower for.
Support supports_grad_weight(const KernelArgs& args);

// Yes for x, unless columns are joined (grad_weight_columns.h): it is normalised as it is copied.
bool normalises_in_grad_weight(const KernelArgs& args, std::size_t input, bool adds);

// f32 sums of products that are exact in f32, rounded once if the result is bf16 or f16. Which
// number is added to which depends on the shapes and the number of threads only. On CPUs with AMX a
// number of x that is not finite may also make sums NaN that it only meets with a factor of 0.
void run_grad_weight(const KernelArgs& args);

// The same with products of that kind, whatever the CPU does best: for tests. kPairs and kTiles
// take bf16 only, and a CPU that has the instructions.
void run_grad_weight(const KernelArgs& args, grad_weight::Products products);

}  // namespace mezzo::kernels
