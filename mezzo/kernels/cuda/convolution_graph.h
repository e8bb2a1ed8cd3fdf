// A convolution as cuDNN's graph interface describes it.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

// What its tensors are called in the graph. The sums are between two operations, not in memory.
enum ConvTensor : std::int64_t { kConvX = 1, kConvWeight = 2, kConvY = 3, kConvSums = 4 };

// How the result leaves the convolution. Most engines that multiply 16-bit operands round their
// sums to 16 bits. Those that cuDNN compiles with the operation behind the convolution hand it f32
// sums: here that is one that does nothing, for results of f32.
enum class ConvTail : std::uint8_t { kNone, kHandsOnSums };

// A graph of the convolution and its tail. Throws CudnnRefusal if cuDNN knows no such one.
Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& problem, ConvTail tail);

}  // namespace mezzo::kernels::cuda
