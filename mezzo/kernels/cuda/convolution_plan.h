// Convolutions by cuDNN's graph interface. The engine is chosen by measurement, once per problem.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::cuda {

enum class ConvPass : std::uint8_t { kForward, kGradInput, kGradWeight };

// One convolution, whichever of its three tensors is the result. All are channels-last in memory,
// including the weight, whose channels are c / groups.
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

// The problem as text for the log.
std::string text_of(const ConvProblem& problem);

struct ConvPointers {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
};

class ConvPlans;

// cuDNN's engines for a problem. Null if cuDNN has none whose sums are exact to f32, or if all of
// them have refused the problem. Kept for the thread's life.
ConvPlans* find_plans(Context& context, const ConvProblem& problem);

// Queues the convolution. At the first call, up to eight engines compute it once as a warm-up and a
// few times against the clock; the fastest is used from then on. With MEZZO_CUDNN_MEASURE=0, it is
// the first that cuDNN recommends and need not compile. Then the choice, and so the bits, are the
// same in every process. An engine that refuses is replaced by another. Returns false, with an
// undefined result, if no engine can run now.
bool run_convolution(Context& context, ConvPlans& plans, const ConvPointers& pointers);

}  // namespace mezzo::kernels::cuda
