// The CPU features that matter for precision.
#pragma once

#include <string>

namespace mezzo {

struct CpuFeatures {
  bool avx2 = false;
  bool f16c = false;         // conversions between f16 and f32
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // bf16 dot products: bf16 is faster than f32
  bool avx512_fp16 = false;
  bool amx_bf16 = false;
};

const CpuFeatures& cpu_features();

// The processor's name as the system gives it.
std::string cpu_name();

// Logs once that bf16 saves memory but not time here, if the CPU has no bf16 dot product.
void warn_if_bf16_is_emulated();

}  // namespace mezzo
