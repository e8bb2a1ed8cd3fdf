// Tensor Cores of the emulated card; see kernels/cuda/tensor_core.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::emulated_card {

// The fragments' numbers of T, 16 bits each, are given to all lanes, which add up their own sums.
template <class T>
void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
extern template void multiply_add<BFloat16>(float (&)[4], const std::uint32_t (&)[4],
                                            const std::uint32_t (&)[2]);
extern template void multiply_add<Float16>(float (&)[4], const std::uint32_t (&)[4],
                                           const std::uint32_t (&)[2]);

// Ends the program if a row does not lie on 16 bytes.
void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed);

// 16 bytes, which have to lie on a multiple of 16 in both memories; zeros if not `inside`.
void copy_pack(void* shared, const void* global, bool inside);

}  // namespace mezzo::emulated_card
