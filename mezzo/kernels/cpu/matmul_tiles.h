// Products of bf16 matrices with the tile unit (AMX): up to twice as fast as oneDNN's, since
// matrices are read where they are or copied once, with little ado, in parts that stay in the
// caches. And small ones, in the same tiles, by the vector unit's dot product where that is fast;
// on Arm, where oneDNN has none, all of them.
#pragma once

#include <memory>

#include "mezzo/kernels/cpu/tiles.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// Whether the kernels take this call of matmul or linear: bf16 operands, a dense result of bf16 or
// f32, and a CPU with AMX or a fast dot product. An operand that is dense along neither its rows
// nor its columns is copied first, with AMX.
Support supports_matmul_tiles(const KernelArgs& args);
Support supports_linear_tiles(const KernelArgs& args);

// f32 sums of products that are exact in f32, rounded once if the result is bf16. Every number of
// the result is added up by one thread, in an order that depends on the inner size only. Subnormal
// operands count as zero.
void run_matmul_tiles(const KernelArgs& args);
void run_linear_tiles(const KernelArgs& args);

// linear with ReLU behind it: the bits of the one and the other.
Support supports_linear_activation_tiles(const KernelArgs& args);
void run_linear_activation_tiles(const KernelArgs& args);

// True if every product of bf16 is theirs: the tile unit's, and Arm's dot product's.
bool tiles_take_all();

// The result of a call that supports_matmul_tiles(), by rows, to the same bits; null unless it is
// one f32 matrix without a bias, as gradients by weights are.
std::unique_ptr<ResultRows> matmul_tiles_rows(const KernelArgs& args);

// The same by that unit, whatever the CPU does best: for tests, on a CPU that has it.
void run_matmul_tiles(const KernelArgs& args, Bf16Unit unit);
void run_linear_tiles(const KernelArgs& args, Bf16Unit unit);

}  // namespace mezzo::kernels
