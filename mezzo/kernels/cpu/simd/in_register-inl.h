// Keeps vectors in registers. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_IN_REGISTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_IN_REGISTER_INL_H_
#undef MEZZO_KERNELS_CPU_IN_REGISTER_INL_H_
#else
#define MEZZO_KERNELS_CPU_IN_REGISTER_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Keeps v in a register: the compiler would rather load it again for each of its uses.
HWY_INLINE F32Vec in_register(F32Vec v) {
#if HWY_TARGET <= HWY_AVX2
  asm("" : "+v"(v.raw));
#endif
  return v;
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
