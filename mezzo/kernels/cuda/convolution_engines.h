// Which of cuDNN's engines may compute a convolution.
#pragma once

#include <vector>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

// Configurations of engines that give sums of f32 products in a fixed order, as the heuristic
// recommends them. Behind the first that cuDNN has compiled come two at most of those that it
// compiles at run time, which takes seconds. Throws CudnnRefusal if the heuristic knows nothing for
// such a graph.
std::vector<Descriptor> exact_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                      const ConvProblem& problem);

}  // namespace mezzo::kernels::cuda
