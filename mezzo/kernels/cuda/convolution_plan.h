// Convolutions by cuDNN's graph interface, chosen by measurement once per problem.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::cuda {

enum class ConvPass : std::uint8_t { kForward, kGradInput, kGradWeight };

// One convolution, whichever of its three tensors is the result. All lie in memory channels-last:
// the weight too, with c / groups for its channels.
struct ConvProblem {
  ConvPass pass = ConvPass::kForward;
  std::array<std::int64_t, 4> x{};       // n, c, h, w
  std::array<std::int64_t, 4> weight{};  // o, c / groups, kh, kw
  std::array<std::int64_t, 4> y{};       // n, o, oh, ow
  Conv2dAttrs attrs{};
  DType dtype = DType::kF32;   // of the operands
  DType result = DType::kF32;  // of the result
  bool tf32 = false;
  int alignment = 16;  // of all pointers, in bytes

  bool operator==(const ConvProblem&) const = default;
};

struct ConvPointers {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
};

class ConvPlans;

// cuDNN's engines for a problem, or null if it has none whose sums are exact to f32. Kept for the
// thread's life.
ConvPlans* find_plans(Context& context, const ConvProblem& problem);

// Queues the convolution. The first time, every engine computes it once for practice and some times
// against the clock, and the fastest one does it from then on; the first that cuDNN recommends with
// MEZZO_CUDNN_MEASURE=0, which makes the choice, and so the bits, the same in every process. False,
// with the result undefined, if no engine can.
bool run_convolution(Context& context, ConvPlans& plans, const ConvPointers& pointers);

}  // namespace mezzo::kernels::cuda
