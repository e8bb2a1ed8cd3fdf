// The weight gradient of a convolution by mezzo's own kernels: twice as fast as oneDNN's.
#pragma once

#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

namespace grad_weight {

// The fastest kind of products on this CPU for images of that dtype.
Products products_for(DType dtype);
// The problem of a call of conv2d_grad_weight.
Problem problem_of(const KernelArgs& args, Products products);
Problem problem_of(const conv::Problem& problem, Products products);

}  // namespace grad_weight

// Yes for x, which is normalised as it is copied, unless columns are joined
// (grad_weight_columns.h).
bool normalises_in_grad_weight(const KernelArgs& args, std::size_t input, bool adds);

// f32 sums of products that are exact in f32, rounded once if the result is bf16 or f16. The order
// of the sums depends on the shapes and the number of threads only. On CPUs with AMX, a value of x
// that is not finite may make sums NaN that it meets only with a factor of 0.
void run_grad_weight(const KernelArgs& args);

// run_grad_weight() with a given kind of products: for tests. kPairs and kTiles take bf16 only, and
// a CPU that has the instructions.
void run_grad_weight(const KernelArgs& args, grad_weight::Products products);

}  // namespace mezzo::kernels
