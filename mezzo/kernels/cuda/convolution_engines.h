// The cuDNN engines that may compute a convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

struct EngineConfig {
  Descriptor config;
  bool is_compiled_at_run_time = false;  // takes seconds
  std::int64_t engine = -1;              // cuDNN's index of the engine
};

// Configurations of engines that compute sums of f32 products in a fixed order, as the heuristic
// ranks them. After the first of those that are already compiled come some of those that cuDNN
// compiles at run time. Throws CudnnRefusal if the heuristic knows nothing for such a graph.
std::vector<EngineConfig> exact_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                        const ConvProblem& problem);

}  // namespace mezzo::kernels::cuda
