// Multiplies panels on the vector unit. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_GRAD_WEIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_GRAD_WEIGHT_INL_H_
#undef MEZZO_KERNELS_CPU_GRAD_WEIGHT_INL_H_
#else
#define MEZZO_KERNELS_CPU_GRAD_WEIGHT_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::Ahead;
using kernels::prefetch_soon;
using kernels::grad_weight::kPanel;

// Vectors per panel.
inline constexpr std::int64_t kVectors = kPanel / kMaxLanes;

// The range of a sum: it runs over slots, rows and pixels of panels.
struct VectorRun {
  std::int64_t slots = 0, rows = 0, pixels = 0;
  std::int64_t a_slot = 0, a_row = 0;  // distances, in elements
  std::int64_t b_slot = 0, b_row = 0;
  std::int64_t c_row = kPanel;  // from one row of sums to the next
  bool first = true;            // the sums begin here

  // Merges contiguous rows, and then slots, into one: short loops cost more.
  VectorRun flat() const {
    VectorRun run = *this;
    if (run.a_row == run.pixels * kPanel && run.b_row == run.a_row) {
      run.pixels *= std::exchange(run.rows, 1);
      if (run.a_slot == run.pixels * kPanel && run.b_slot == run.a_slot) {
        run.pixels *= std::exchange(run.slots, 1);
      }
    }
    return run;
  }
};

// Calls body(part, a, b) for parts of a run that begin `a` and `b` elements into the operands. A
// part's panels stay in the nearest caches while others stream past; sums are read and written once
// per part.
template <class Body>
void for_parts(const VectorRun& run, const Body& body) {
  constexpr std::int64_t kMostPixels = 256;
  const std::int64_t slots =
      std::clamp<std::int64_t>(kMostPixels / (run.rows * run.pixels), 1, run.slots);
  const std::int64_t rows = std::clamp<std::int64_t>(kMostPixels / run.pixels, 1, run.rows);
  for (std::int64_t slot = 0; slot < run.slots; slot += slots) {
    for (std::int64_t row = 0; row < run.rows; row += rows) {
      for (std::int64_t pixel = 0; pixel < run.pixels; pixel += kMostPixels) {
        VectorRun part = run;
        part.slots = std::min(slots, run.slots - slot);
        part.rows = std::min(rows, run.rows - row);
        part.pixels = std::min(kMostPixels, run.pixels - pixel);
        part.first = run.first && slot + row + pixel == 0;
        body(part, slot * run.a_slot + row * run.a_row + pixel * kPanel,
             slot * run.b_slot + row * run.b_row + pixel * kPanel);
      }
    }
  }
}

#if HWY_TARGET == HWY_AVX3
inline constexpr int kMostGroups = 3;  // 24 sums, 3 panels and a value of `a`: 28 of 32 registers
#else
inline constexpr int kMostGroups = 1;  // 12 sums of 2 vectors, a panel and a value: 15 of 16
#endif

// c[m][n] += sum over q of a[q][m] * b[q][n] for kRows rows m and kGroups panels b. The loops over
// sums are unrolled; otherwise the sums would not stay in registers. For the same reason there are
// no calls.
template <bool kPaired, int kGroups, int kRows>
// NOLINTNEXTLINE(readability-function-size)
void multiply(const VectorRun& run, const float* a, const float* const* b, float* const* c,
              Ahead& later) {
  Ahead ahead = later;
  // The sums may lie in the third-level cache: prefetched now, they arrive in time.
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) prefetch_soon(c[g] + m * run.c_row, 0);
  }
  F32Vec sums[kRows][kGroups][kVectors];
  const F32 d;
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[m][g][v] = hn::Zero(d);
      }
    }
  }
  for (std::int64_t slot = 0; slot < run.slots; ++slot) {
    for (std::int64_t row = 0; row < run.rows; ++row) {
      const float* from_a = a + slot * run.a_slot + row * run.a_row;
      const float* from_b[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) from_b[g] = b[g] + slot * run.b_slot + row * run.b_row;
      for (std::int64_t q = 0; q < run.pixels * kPanel; q += kPanel) {
        ahead.prefetch_line();
        F32Vec factors[kGroups][kVectors];
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            factors[g][v] = hn::LoadU(d, from_b[g] + q + v * kMaxLanes);
          }
        }
#pragma GCC unroll 8
        for (int m = 0; m < kRows; ++m) {
          const F32Vec factor = hn::Set(d, from_a[q + m]);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
              sums[m][g][v] = multiply_add<kPaired>(factor, factors[g][v], sums[m][g][v]);
            }
          }
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* const to = c[g] + m * run.c_row + v * kMaxLanes;
        // Sums are added to sums: thousands of products added one after the other would lose more
        // bits.
        hn::StoreU(run.first ? sums[m][g][v] : hn::Add(hn::LoadU(d, to), sums[m][g][v]), d, to);
      }
    }
  }
  later = ahead;
}

// Multiplies the rows from kFirst on in groups, as many at a time as registers have sums for.
template <bool kPaired, int kGroups, int kFirst, int kRows, int... kMore>
void multiply_rows(const VectorRun& run, const float* a, const float* const* b, float* const* c,
                   Ahead& ahead) {
  float* rows[kGroups];
  for (int g = 0; g < kGroups; ++g) rows[g] = c[g] + kFirst * run.c_row;
  multiply<kPaired, kGroups, kRows>(run, a + kFirst, b, rows, ahead);
  if constexpr (sizeof...(kMore) > 0) {
    multiply_rows<kPaired, kGroups, kFirst + kRows, kMore...>(run, a, b, c, ahead);
  } else {
    static_assert(kFirst + kRows == kPanel);
  }
}

// Adds the products of panel `a` with `groups` panels `b` to the squares `c`, or begins them, and
// prefetches what is read later.
template <bool kPaired>
void multiply_panel(int groups, const VectorRun& run, const float* a, const float* const* b,
                    float* const* c, Ahead& ahead) {
#if HWY_TARGET == HWY_AVX3
  if (groups == 3) return multiply_rows<kPaired, 3, 0, 8, 8>(run, a, b, c, ahead);
  if (groups == 2) return multiply_rows<kPaired, 2, 0, 8, 8>(run, a, b, c, ahead);
  multiply_rows<kPaired, 1, 0, 8, 8>(run, a, b, c, ahead);
#else
  static_cast<void>(groups);
  multiply_rows<kPaired, 1, 0, 6, 5, 5>(run, a, b, c, ahead);
#endif
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
