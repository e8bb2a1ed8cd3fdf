// Transforms a weight for Winograd's method. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_WINOGRAD_WEIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_WINOGRAD_WEIGHT_INL_H_
#undef MEZZO_KERNELS_CPU_WINOGRAD_WEIGHT_INL_H_
#else
#define MEZZO_KERNELS_CPU_WINOGRAD_WEIGHT_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "mezzo/kernels/cpu/conv/winograd/winograd-inl.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::winograd::Convolution;
using kernels::winograd::kColumns;

inline constexpr int kAllTaps = kTaps * kTaps;

// The kernels of kPanel inputs and kColumns outputs of a weight of T.
template <class T>
class KernelBlock {
 public:
  KernelBlock(const Convolution& convolution, const kernels::winograd::RoundedWeight& weight)
      : convolution_(convolution),
        weight_(weight.numbers.template data<T>()),
        steps_(weight.numbers.strides()),
        dtype_(weight.dtype) {
    if (convolution.turned) std::swap(steps_[0], steps_[1]);
  }

  // Transforms the kernels from that input and output on. `out` is the place of the first one;
  // points lie `point` floats apart.
  void transform_to(std::int64_t first_in, std::int64_t first_out, std::int64_t point, float* out) {
    read(first_in, first_out);
    if constexpr (std::is_same_v<T, float>) round_numbers();
    const std::int64_t ins = std::min(kPanel, convolution_.in - first_in);
    for (std::int64_t i = 0; i < ins; ++i) {
      for (std::int64_t v = 0; v < kColumns; v += kMaxLanes) {
        float* const target = out + i * kColumns + v;
        transform<KernelTransform>(
            [&](int h, int w) HWY_ATTR { return load(numbers_[h * kTaps + w][i] + v); },
            [&](int h, int w, F32Vec value)
                HWY_ATTR { store(value, target + (h * kTile + w) * point); });
      }
    }
  }

 private:
  // Contiguous channels are read as vectors; most parameters have them.
  void read(std::int64_t first_in, std::int64_t first_out) {
    const std::int64_t ins = std::min(kPanel, convolution_.in - first_in);
    const std::int64_t outs = std::min(kColumns, convolution_.out - first_out);
    const bool is_whole = ins == kPanel && outs == kColumns;
    for (int tap = 0; tap < kAllTaps; ++tap) {
      const int place = convolution_.turned ? kAllTaps - 1 - tap : tap;
      const T* const from = weight_ + first_out * steps_[0] + first_in * steps_[1] +
                            place / kTaps * steps_[2] + place % kTaps * steps_[3];
      float(*const to)[kColumns] = numbers_[tap];
      if (is_whole && steps_[0] == 1) {
        for (std::int64_t i = 0; i < kPanel; ++i) copy<kColumns>(from + i * steps_[1], to[i]);
      } else if (is_whole && steps_[1] == 1) {
        read_transposed(from, to);
      } else {
        read_singly(from, ins, outs, to);
      }
    }
  }

  void read_singly(const T* from, std::int64_t ins, std::int64_t outs,
                   float (*to)[kColumns]) const {
    for (std::int64_t i = 0; i < ins; ++i) {
      for (std::int64_t o = 0; o < outs; ++o) {
        to[i][o] = static_cast<float>(from[o * steps_[0] + i * steps_[1]]);
      }
    }
  }

  template <std::int64_t kCount>
  static HWY_INLINE void copy(const T* from, float* to) {
    for (std::int64_t v = 0; v < kCount; v += kMaxLanes) store(load(from + v), to + v);
  }

  void read_transposed(const T* from, float (*to)[kColumns]) const {
    static_assert(kColumns % kPanel == 0);
    for (std::int64_t o = 0; o < kColumns; o += kPanel) {
      const T* const rows = from + o * steps_[0];
      if constexpr (std::is_same_v<T, float>) {
        transpose_square<kPanel, kColumns>(rows, steps_[0], to[0] + o);
      } else {
        alignas(64) float wide[kPanel][kPanel];
        for (std::int64_t r = 0; r < kPanel; ++r) copy<kPanel>(rows + r * steps_[0], wide[r]);
        transpose_square<kPanel, kColumns>(&wide[0][0], kPanel, to[0] + o);
      }
    }
  }

  void round_numbers() {
    if (dtype_ == DType::kF32) return;
    kernels::visit_vector_dtype(dtype_, [&]<class Low>() {
      float* const first = &numbers_[0][0][0];
      for (std::int64_t i = 0; i < kAllTaps * kPanel * kColumns; i += kMaxLanes) {
        store(as_stored<Low>(load(first + i)), first + i);
      }
    });
  }

  const Convolution& convolution_;
  const T* weight_;
  Strides steps_;  // between outputs, inputs, rows and columns
  DType dtype_;
  // Transposed. If there are fewer outputs than a block has, the surplus results are never read.
  alignas(64) float numbers_[kAllTaps][kPanel][kColumns] = {};
};

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
