// The CPU features that matter for precision.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/dtype.h"

namespace mezzo {

struct CpuFeatures {
  bool avx2 = false;
  bool f16c = false;         // conversions between f16 and f32
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // bf16 dot products
  bool avx512_fp16 = false;
  bool amx_bf16 = false;
};

// The instruction sets that kernels are written for, from narrow to wide.
enum class Isa : unsigned char { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };

// The widest instruction set that kernels may use. The environment variable MEZZO_MAX_ISA limits it
// (`baseline`, `avx2` or `avx512`), for tests and to see what another CPU would do.
Isa max_isa();

// The features of this CPU, limited by max_isa().
const CpuFeatures& cpu_features();

// True if kernels that are vector loops are worth choosing where others could do the work.
bool has_vectors();

// Numbers of f32 in a vector of the widest kind, within max_isa(): 16, 8 or 4.
std::int64_t vector_lanes();

// True if the bf16 dot product does twice the arithmetic of an f32 multiply-add, as on AMD's CPUs
// that have it. On Intel's it does half (36 against 67 GFLOP/s on one busy core of family 6, model
// 207), so there widening bf16 to f32 is faster.
bool has_fast_bf16_dot();

// True if bf16 matrix products are faster than f32 ones, by AMX or a fast dot product. Elsewhere
// kernels widen bf16 to f32.
bool has_fast_bf16();

// The processor's name as the system reports it.
std::string cpu_name();

// Logs once that this 16-bit dtype, which the CPU computes in f32, saves memory but no time. Logs
// nothing for bf16 where has_fast_bf16().
void warn_of_widening(DType dtype);

}  // namespace mezzo
