#include "mezzo/kernels/cpu/simd/isa.h"

#include <dnnl.hpp>
#include <hwy/targets.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"

namespace mezzo::kernels {
namespace {

bool apply() {
#if defined(__x86_64__)
  switch (max_isa()) {
    case Isa::kBaseline:
    case Isa::kNeon:
      // oneDNN has nothing below SSE4.1, which every x86-64 CPU since 2008 has.
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
      hwy::DisableTargets(HWY_AVX2 | HWY_AVX3);
      break;
    case Isa::kAvx2:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
      hwy::DisableTargets(HWY_AVX3);
      break;
    case Isa::kAvx512: dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core); break;
    case Isa::kAll: break;
  }
#endif
  // On Arm, vector loops have one target, NEON, and oneDNN's interface has no names for what it
  // uses.
  return true;
}

}  // namespace

extern const bool has_bf16_rounding = cpu_features().avx512_bf16;

void limit_isa() {
  static const bool kApplied = apply();
  static_cast<void>(kApplied);
}

void fail_without_avx2() {
  throw UnsupportedError(
      "[cpu] this kernel is built for AVX2 and later only. Report this: it should not have been "
      "called");
}

}  // namespace mezzo::kernels
