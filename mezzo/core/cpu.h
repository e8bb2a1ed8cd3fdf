// The CPU features that matter for precision.
#pragma once

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

// The widest instruction set that kernels may use: everything, unless the environment variable
// MEZZO_MAX_ISA says `baseline`, `avx2` or `avx512`. For tests, and to see what another CPU would
// do.
Isa max_isa();

// What the CPU has, within max_isa().
const CpuFeatures& cpu_features();

// True if the bf16 dot product does twice the arithmetic of an f32 multiply-add: on AMD's CPUs that
// have it. Intel's does half of it (36 against 67 GFLOP/s on one busy core of family 6, model 207),
// so that widening bf16 to f32 is faster.
bool has_fast_bf16_dot();

// True if products of bf16 are faster than those of f32: by AMX, or such a dot product. Kernels
// widen bf16 to f32 elsewhere.
bool has_fast_bf16();

// The processor's name as the system gives it.
std::string cpu_name();

// Logs once that a dtype of 16 bits, computed in f32 by the CPU, saves memory but not time; nothing
// of bf16 where has_fast_bf16().
void warn_of_widening(DType dtype);

}  // namespace mezzo
