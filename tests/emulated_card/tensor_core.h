// Tensor Cores of the emulated card; see kernels/cuda/tensor_core.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::emulated_card {

// All lanes get the fragments' elements of T, 16 bits each, and compute their own sums.
template <class T>
void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
extern template void multiply_add<BFloat16>(float (&)[4], const std::uint32_t (&)[4],
                                            const std::uint32_t (&)[2]);
extern template void multiply_add<Float16>(float (&)[4], const std::uint32_t (&)[4],
                                           const std::uint32_t (&)[2]);

// Ends the program if a row is not aligned to 16 bytes.
void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed);

// Copies 16 bytes, which must be aligned to 16 in both memories; zeros unless `inside`.
void copy_pack(void* shared, const void* global, bool inside);

}  // namespace mezzo::emulated_card
