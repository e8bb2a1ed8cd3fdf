// CUDA kernels over lists of flat blocks; see ops/update/flat_kernels.h.
#pragma once

#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo::flat::cuda {

void count_exponents(std::span<const Block> blocks, float factor, std::span<ExponentCounts> counts);
void update(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
            const UpdateFactors& factors);
void update_if(const UpdateRule& rule, Device device, const Condition& condition,
               Listed<UpdateBlock> blocks, const UpdateFactors* factors);

void note_largest(Device device, const float* seen, float* largest);
void advance_scales(Device device, std::span<const ScaleHistory> scales);

}  // namespace mezzo::flat::cuda
