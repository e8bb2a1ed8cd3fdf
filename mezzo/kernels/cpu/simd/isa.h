// Limits oneDNN and the vector loops to max_isa().
#pragma once

namespace mezzo::kernels {

// Applies max_isa() to oneDNN and Highway. Called before the first kernel runs; later calls do
// nothing.
void limit_isa();

// True if the CPU rounds f32 to bf16 in one instruction (AVX512-BF16), within max_isa().
extern const bool has_bf16_rounding;

// For a kernel that was called although its support() must have refused it. Throws
// UnsupportedError.
[[noreturn]] void fail_without_avx2();

}  // namespace mezzo::kernels
