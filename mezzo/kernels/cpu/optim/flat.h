// The CPU's kernels over lists of flat blocks; see ops/update/flat_kernels.h.
#pragma once

#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo::flat::cpu {

std::size_t first_nonfinite(std::span<const Block> blocks);
// first_nonfinite() of the blocks multiplied by `factor`, which are not written.
std::size_t first_nonfinite_product(std::span<const Block> blocks, float factor);
std::size_t scale(std::span<const Block> blocks, float factor);
double sum_of_squares(std::span<const Block> blocks);
// sum_of_squares() of the blocks multiplied by `factor`, in f32.
double sum_of_product_squares(std::span<const Block> blocks, float factor);
void clamp_blocks(std::span<const Block> blocks, float limit);
void count_exponents(std::span<const Block> blocks, float factor, std::span<ExponentCounts> counts);
void update(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
            const UpdateFactors& factors);

}  // namespace mezzo::flat::cpu
