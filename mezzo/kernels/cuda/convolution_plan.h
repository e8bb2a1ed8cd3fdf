// Convolutions by cuDNN's graph interface, chosen by measurement once per problem.
#pragma once

#include <array>
#include <cstdint>
#include <string>

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
  bool tf32 = false;           // f32 operands may be rounded to TF32, or are exact in it
  int alignment = 16;          // of all pointers, in bytes

  bool operator==(const ConvProblem&) const = default;
};

// For the log.
std::string text_of(const ConvProblem& problem);

struct ConvPointers {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
};

class ConvPlans;

// cuDNN's engines for a problem, or null if it has none whose sums are exact to f32, or none that
// has not refused it. Kept for the thread's life.
ConvPlans* find_plans(Context& context, const ConvProblem& problem);

// Queues the convolution. The first time, up to eight engines compute it once for practice and some
// times against the clock, and the fastest one does it from then on. With MEZZO_CUDNN_MEASURE=0 it
// is the first that cuDNN recommends and need not compile, which makes the choice, and so the bits,
// the same in every process. One that refuses is replaced by another. False, with the result
// undefined, if no engine can now.
bool run_convolution(Context& context, ConvPlans& plans, const ConvPointers& pointers);

}  // namespace mezzo::kernels::cuda
