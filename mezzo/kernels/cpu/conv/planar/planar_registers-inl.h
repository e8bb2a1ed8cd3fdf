// Loops over vectors of pixels whose sums are in registers. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
#undef MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
#else
#define MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
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

// Calls body.operator()<vectors>(first) for blocks that cover all `count` vectors. If fewer than a
// block are left, the block before gives one up, or the block reaches beyond the last vector.
template <int kMost, class Body>
void for_vector_blocks(std::int64_t count, const Body& body) {
  for (std::int64_t first = 0; first < count;) {
    if ((count - first) % kMost == 0) {
      body.template operator()<kMost>(first);
      first += kMost;
    } else {
      body.template operator()<kMost - 1>(first);
      first += kMost - 1;
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
