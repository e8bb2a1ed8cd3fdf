// A convolution as cuDNN's graph interface describes it.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

// What its tensors are called in the graph.
enum ConvTensor : std::int64_t { kConvX = 1, kConvWeight = 2, kConvY = 3 };

// A graph of one operation. Throws CudnnRefusal if cuDNN knows no such one.
Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& problem);

}  // namespace mezzo::kernels::cuda
