// The description of a convolution in cuDNN's graph interface.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

// The tensors' ids in the graph. The sums are passed between two operations, not stored in memory.
enum ConvTensor : std::int64_t { kConvX = 1, kConvWeight = 2, kConvY = 3, kConvSums = 4 };

// How the result leaves the convolution. Most engines for 16-bit operands round their sums to 16
// bits. Engines that cuDNN compiles with a following operation pass f32 sums to it. kHandsOnSums
// adds such an operation that does nothing, for f32 results.
enum class ConvTail : std::uint8_t { kNone, kHandsOnSums };

// Describes the graph of the convolution and its tail. Throws CudnnRefusal if cuDNN rejects it.
Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& problem, ConvTail tail);

}  // namespace mezzo::kernels::cuda
