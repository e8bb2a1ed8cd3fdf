#include "mezzo/core/cpu.h"

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "mezzo/core/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mezzo {
namespace {

Isa read_max_isa() {
  const char* text = std::getenv("MEZZO_MAX_ISA");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view name = text != nullptr ? text : "";
  if (name == "baseline") return Isa::kBaseline;
  if (name == "avx2") return Isa::kAvx2;
  if (name == "avx512") return Isa::kAvx512;
  if (!name.empty()) {
    logging::warn_once(concat("MEZZO_MAX_ISA is `", name,
                              "`, which is ignored: it is not baseline, avx2 or avx512"));
  }
  return Isa::kAvx512Bf16;
}

CpuFeatures detect() {
  CpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // If the system supports AVX, it supports F16C, too: both use the same registers.
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) features.f16c = features.avx2 && (c & bit_F16C) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    features.amx_bf16 = (d >> 22 & 1U) != 0;
    features.avx512_fp16 = features.avx512 && (d >> 23 & 1U) != 0;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
    features.avx512_bf16 = features.avx512 && (a >> 5 & 1U) != 0;
  }
#endif
  if (max_isa() < Isa::kAvx2) features.avx2 = features.f16c = false;
  if (max_isa() < Isa::kAvx512) features.avx512 = false;
  if (max_isa() < Isa::kAvx512Bf16) {
    features.avx512_bf16 = features.avx512_fp16 = features.amx_bf16 = false;
  }
  return features;
}

}  // namespace

Isa max_isa() {
  static const Isa kIsa = read_max_isa();
  return kIsa;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = detect();
  return kFeatures;
}

bool has_vectors() { return cpu_features().avx2; }

std::int64_t vector_lanes() {
  if (cpu_features().avx512) return 16;
  return cpu_features().avx2 ? 8 : 4;
}

bool has_fast_bf16_dot() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return cpu_features().avx512_bf16 && __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

bool has_fast_bf16() { return cpu_features().amx_bf16 || has_fast_bf16_dot(); }

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

void warn_of_widening(DType dtype) {
  if (dtype == DType::kF16) {
    logging::warn_once("f16 is computed in f32 on CPUs: it saves memory here, not time");
  } else if (!has_fast_bf16()) {
    logging::warn_once(
        "this CPU has no fast bf16 dot product (AMX, or AVX512-BF16 on Zen 4 and later): "
        "bf16 saves memory here, not time");
  }
}

}  // namespace mezzo
