// The table of flat kernels, and those of them that need no vectors.
#include "mezzo/kernels/cpu/flat.h"

#include "mezzo/core/half.h"
#include "mezzo/core/parallel.h"

namespace mezzo::flat {
namespace {

template <class T>
void refresh(const T* param, float* master, std::int64_t count) {
  parallel_for(count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (T(master[i]).bits != param[i].bits) master[i] = static_cast<float>(param[i]);
    }
  });
}

void refresh_master(const void* param, DType dtype, float* master, std::int64_t count) {
  if (dtype == DType::kBf16) {
    refresh(static_cast<const BFloat16*>(param), master, count);
  } else {
    refresh(static_cast<const Float16*>(param), master, count);
  }
}

// In f64: with a small factor, `to + take * difference` in f32 stops moving when the increment
// falls below half a unit in the last place; one rounding at the end does so later.
void blend(float* to, const float* from, std::int64_t count, double keep, double take) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(keep * to[i] + take * from[i]);
  }
}

}  // namespace

extern const Kernels kCpuKernels{.name = "cpu_simd",
                                 .first_nonfinite = cpu::first_nonfinite,
                                 .scale = cpu::scale,
                                 .sum_of_squares = cpu::sum_of_squares,
                                 .clamp = cpu::clamp,
                                 .count_exponents = cpu::count_exponents,
                                 .sgd = cpu::sgd,
                                 .adam = cpu::adam,
                                 .refresh_master = refresh_master,
                                 .blend = blend};

}  // namespace mezzo::flat
