// Products of bf16 matrices on the tile unit (AMX). They take down to half of oneDNN's time:
// matrices are read in place or copied once, with little overhead, in parts that stay in the
// caches. Small products run in the same tiles on the vector unit's dot product, where that is
// fast.
#pragma once

#include <memory>

#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// Whether the kernels take this call of matmul or linear. They need bf16 operands, a dense result
// of bf16 or f32, and a CPU with AMX or a fast dot product. With AMX, an operand that is dense
// along neither its rows nor its columns is copied first.
Support supports_matmul_tiles(const KernelArgs& args);
Support supports_linear_tiles(const KernelArgs& args);

// Compute matmul and linear. Products are exact in f32; their f32 sums are rounded once if the
// result is bf16. Each element of the result is summed by one thread, in an order that depends on
// the inner size only. Subnormal operands count as zero.
void run_matmul_tiles(const KernelArgs& args);
void run_linear_tiles(const KernelArgs& args);

// linear followed by ReLU: the same bits as the two operations.
Support supports_linear_activation_tiles(const KernelArgs& args);
void run_linear_activation_tiles(const KernelArgs& args);

// True if every product of bf16 is computed here: by the tile unit, and by Arm's dot product.
bool tiles_take_all();

// The result of a call that supports_matmul_tiles(), by rows, with the same bits. Null unless the
// result is a single f32 matrix without bias, as weight gradients are.
std::unique_ptr<ResultRows> matmul_tiles_rows(const KernelArgs& args);

// The same calls on a given unit, whichever is faster: for tests, on a CPU that has the unit.
void run_matmul_tiles(const KernelArgs& args, Bf16Unit unit);
void run_linear_tiles(const KernelArgs& args, Bf16Unit unit);

}  // namespace mezzo::kernels
