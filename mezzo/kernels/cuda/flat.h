// CUDA kernels over lists of flat blocks; see ops/update/flat_kernels.h.
#pragma once

#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo::flat::cuda {

void count_exponents(std::span<const Block> blocks, float factor, std::span<ExponentCounts> counts);
void sgd(std::span<const SgdBlock> blocks, const SgdFactors& factors);
void adam(std::span<const AdamBlock> blocks, const AdamFactors& factors);
void sgd_if(Device device, Gate gate, Clip clip, Listed<SgdBlock> blocks,
            const SgdFactors* factors);
void adam_if(Device device, Gate gate, Clip clip, Listed<AdamBlock> blocks,
             const AdamFactors* factors);

}  // namespace mezzo::flat::cuda
