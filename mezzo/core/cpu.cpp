#include "mezzo/core/cpu.h"

#include <cstdlib>
#include <string_view>

#include "mezzo/core/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace mezzo {
namespace {

struct IsaName {
  std::string_view name;
  Isa isa;
};

#if defined(__aarch64__)
constexpr IsaName kIsaNames[] = {{"baseline", Isa::kBaseline}, {"neon", Isa::kNeon}};
constexpr std::string_view kIsaChoice = "baseline or neon";
#else
constexpr IsaName kIsaNames[] = {
    {"baseline", Isa::kBaseline}, {"avx2", Isa::kAvx2}, {"avx512", Isa::kAvx512}};
constexpr std::string_view kIsaChoice = "baseline, avx2 or avx512";
#endif

Isa read_max_isa() {
  const char* text = std::getenv("MEZZO_MAX_ISA");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view name = text != nullptr ? text : "";
  for (const IsaName& known : kIsaNames) {
    if (name == known.name) return known.isa;
  }
  if (!name.empty()) {
    logging::warn_once(
        concat("MEZZO_MAX_ISA is `", name, "`, which is not ", kIsaChoice, ", and is ignored"));
  }
  return Isa::kAll;
}

#if defined(__x86_64__)

// With what Highway compiles its target of that name for: a CPU with AVX2 has it all, but a virtual
// machine may hide some. Kernels that ask for AVX2 have no code for what Highway would choose then.
bool has_avx2() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // AVX usable by the system implies that F16C is: they share the register state.
  const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool has_lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
  return has_f16c && has_lzcnt && __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("bmi") != 0 &&
         __builtin_cpu_supports("bmi2") != 0;
}

CpuFeatures detect() {
  CpuFeatures features;
  __builtin_cpu_init();
  features.avx2 = features.f16c = has_avx2();
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
  return features;
}

#elif defined(__aarch64__)

// By the bits that Linux gives: the registers that say it cannot be read everywhere. Their numbers
// are part of Linux's interface; older headers have no name for some.
CpuFeatures detect() {
  CpuFeatures features;
  features.neon = true;
#if defined(__linux__)
  const auto has = [](unsigned long word, unsigned bit) { return (word >> bit & 1UL) != 0; };
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  features.neon_fp16 = has(first, 10);   // HWCAP_ASIMDHP
  features.sve = has(first, 22);         // HWCAP_SVE
  features.i8mm = has(second, 13);       // HWCAP2_I8MM
  features.neon_bf16 = has(second, 14);  // HWCAP2_BF16
#endif
  return features;
}

#else

CpuFeatures detect() { return {}; }

#endif

CpuFeatures limited(CpuFeatures features) {
  if (max_isa() < Isa::kNeon) features.neon = false;
  if (max_isa() < Isa::kAvx2) features.avx2 = features.f16c = false;
  if (max_isa() < Isa::kAvx512) features.avx512 = false;
  if (max_isa() < Isa::kAll) {
    features.avx512_bf16 = features.avx512_fp16 = features.amx_bf16 = false;
    features.neon_fp16 = features.neon_bf16 = features.i8mm = features.sve = false;
  }
  return features;
}

}  // namespace

Isa max_isa() {
  static const Isa kIsa = read_max_isa();
  return kIsa;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = limited(detect());
  return kFeatures;
}

bool has_vectors() { return cpu_features().avx2 || cpu_features().neon; }

std::int64_t vector_lanes() {
  if (cpu_features().avx512) return 16;
  return cpu_features().avx2 ? 8 : 4;
}

bool has_bf16_dot() { return cpu_features().avx512_bf16 || cpu_features().neon_bf16; }

bool has_fast_bf16_dot() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return has_bf16_dot() && __builtin_cpu_is("amd") != 0;
#else
  return has_bf16_dot();
#endif
}

bool has_fast_bf16() { return cpu_features().amx_bf16 || has_fast_bf16_dot(); }

void warn_of_widening(DType dtype) {
  if (dtype == DType::kF16) {
    logging::warn_once("f16 is computed in f32 on CPUs: it saves memory here, not time");
  } else if (!has_fast_bf16()) {
    logging::warn_once(
        "this CPU has no fast bf16 dot product (AMX, AVX512-BF16 on Zen 4 and later, or BFDOT on "
        "Arm): "
        "bf16 saves memory here, not time");
  }
}

}  // namespace mezzo
