// Which of cuDNN's engines may compute a convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"

namespace mezzo::kernels::cuda {

struct EngineConfig {
  Descriptor config;
  bool is_compiled_at_run_time = false;  // which takes seconds
  std::int64_t engine = -1;              // cuDNN's number of it
};

// Configurations of engines that give sums of f32 products in a fixed order, as the heuristic
// recommends them; behind the first that cuDNN has compiled come some of those that it compiles at
// run time. Throws CudnnRefusal if the heuristic knows nothing for such a graph.
std::vector<EngineConfig> exact_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                        const ConvProblem& problem);

}  // namespace mezzo::kernels::cuda
