// Adding a bias to sums that are still f32.
#pragma once

#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

// output = sums + bias, in f32, rounded once. The last dimension in memory has the bias's size. The
// sums may be the output.
void add_bias(const Launch& launch, const Tensor& sums, const Tensor& bias, const Tensor& output);

}  // namespace mezzo::kernels::cuda
