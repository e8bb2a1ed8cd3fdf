// Loops over vectors of pixels whose sums are in registers. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
#undef MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
#else
#define MEZZO_KERNELS_CPU_PLANAR_REGISTERS_INL_H_
#endif

#include "mezzo/kernels/cpu/simd/in_register-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

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
