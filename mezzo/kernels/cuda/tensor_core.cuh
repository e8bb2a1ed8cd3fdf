// Tensor Cores, and their input: matrices in fragments that a warp's threads share, and
// asynchronous copies to shared memory. From sm_80 on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels::cuda {

// A product of 16x16 by 16x8, in fragments as in `mma.m16n8k16` (PTX ISA, "Matrix Fragments for
// mma.m16n8k16"). Each 32-bit element of lane l holds two adjacent values along k. With g = l / 4
// and q = l % 4, the lane has:
//   a     rows g and g + 8, both at k = 2q, then both at k = 2q + 8
//   b     column g at k = 2q, then at k = 2q + 8
//   sums  row g at columns 2q and 2q + 1, then row g + 8
using LeftFragment = std::uint32_t[4];
using RightFragment = std::uint32_t[2];
using SumFragment = float[4];

#ifdef MEZZO_EMULATED_CARD

template <class T>
void multiply_add(SumFragment& sums, const LeftFragment& a, const RightFragment& b, T /*of*/) {
  emulated_card::multiply_add<T>(sums, a, b);
}
inline void load_matrices(LeftFragment& to, const void* row) {
  emulated_card::load_matrices(to, row, false);
}
inline void load_transposed(LeftFragment& to, const void* row) {
  emulated_card::load_matrices(to, row, true);
}
inline void copy_beside(void* shared, const void* global, bool inside) {
  emulated_card::copy_pack(shared, global, inside);
}
inline void end_of_copies() {}
template <int kLatest>
void wait_for_copies() {}

#else

__device__ inline void multiply_add(SumFragment& sums, const LeftFragment& a,
                                    const RightFragment& b, Float16 /*of*/) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void multiply_add(SumFragment& sums, const LeftFragment& a,
                                    const RightFragment& b, BFloat16 /*of*/) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Loads four matrices of 8x8 from shared memory; lanes 8i to 8i + 7 give the addresses of matrix
// i's rows, of 16 bytes each. Lane l gets row l / 4 at columns 2 (l % 4) and the next.
__device__ inline void load_matrices(LeftFragment& to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}
// load_matrices() with each matrix transposed: lane l gets column l / 4 at rows 2 (l % 4) and the
// next.
__device__ inline void load_transposed(LeftFragment& to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

// Queues a copy of 16 bytes to shared memory; zeros if they are not `inside`.
__device__ inline void copy_beside(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0)
               : "memory");
}
// Ends a group of a thread's copies.
__device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all of the thread's groups except the kLatest latest.
template <int kLatest>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLatest) : "memory");
}

#endif

}  // namespace mezzo::kernels::cuda
