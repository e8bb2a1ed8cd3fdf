// The CPU features that matter for precision.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "mezzo/core/dtype.h"

namespace mezzo {

struct CpuFeatures {
  // Of x86-64.
  bool avx2 = false;
  bool f16c = false;         // conversions between f16 and f32
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // bf16 dot products
  bool avx512_fp16 = false;
  bool amx_bf16 = false;
  // Of 64-bit Arm.
  bool neon = false;       // every such CPU has it; not within MEZZO_MAX_ISA=baseline
  bool neon_fp16 = false;  // arithmetic in f16
  bool neon_bf16 = false;  // bf16 dot products (BFDOT), and products of small matrices (BFMMLA)
  bool i8mm = false;       // products of small matrices of 8 bits
  bool sve = false;
};

// The instruction sets that kernels are written for, from narrow to wide: those of x86-64 and those
// of 64-bit Arm. kAll is everything that either has.
enum class Isa : unsigned char { kBaseline, kNeon, kAvx2, kAvx512, kAll };

// The widest instruction set that kernels may use: everything, unless the environment variable
// MEZZO_MAX_ISA says `baseline`, on x86-64 `avx2` or `avx512`, or on Arm `neon`. For tests, and to
// see what another CPU would do.
Isa max_isa();

// The features of this CPU, limited by max_isa().
const CpuFeatures& cpu_features();

// True if kernels that are vector loops are worth choosing where others could do the work: with
// AVX2 or NEON. (What every x86-64 CPU has, SSE2, has neither a multiply-add nor registers enough.)
bool has_vectors();

// Numbers of f32 in a vector of the widest kind, within max_isa(): 16, 8 or 4.
std::int64_t vector_lanes();

// True if the CPU has a dot product of bf16: AVX512-BF16 or BFDOT.
bool has_bf16_dot();

// True if the bf16 dot product does twice the arithmetic of an f32 multiply-add: on AMD's CPUs that
// have it, and, by what Arm says of its Neoverse and Cortex cores but not measured, on Arm's.
// Intel's does half of it (36 against 67 GFLOP/s on one busy core of family 6, model 207), so that
// widening bf16 to f32 is faster.
bool has_fast_bf16_dot();

// True if bf16 matrix products are faster than f32 ones, by AMX or a fast dot product. Elsewhere
// kernels widen bf16 to f32.
bool has_fast_bf16();

// The processor's name as the system gives it, "unknown" if it gives none. Where it gives numbers,
// as on Arm, the name that Arm's and others' manuals have for them, or the numbers.
std::string cpu_name();
// The name in a text like that of /proc/cpuinfo.
std::string cpu_name_in(std::istream& cpuinfo);

// Logs once that this 16-bit dtype, which the CPU computes in f32, saves memory but no time. Logs
// nothing for bf16 where has_fast_bf16().
void warn_of_widening(DType dtype);

}  // namespace mezzo
