#include "mezzo/ops/backend_info.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/backend_info.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <dnnl.hpp>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/simd/isa.h"

namespace mezzo {
namespace {

HWY_EXPORT(target_name);

const char* isa_name() {
#if defined(__aarch64__)
  return "SVE if there is";  // it gives no name there
#else
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "SSE4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx2_vnni: return "AVX2-VNNI";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX512-VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX512-BF16";
    case dnnl::cpu_isa::avx512_core_amx: return "AMX";
    default: return "the baseline";
  }
#endif
}

}  // namespace

BackendInfo backend_info() {
  kernels::limit_isa();
  const dnnl_version_t* version = dnnl_version();
  return {concat(version->major, ".", version->minor, ".", version->patch), isa_name(),
          HWY_DYNAMIC_DISPATCH(target_name)()};
}

}  // namespace mezzo
#endif
