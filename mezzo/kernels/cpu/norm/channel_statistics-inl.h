// Mean and variance of every channel: pass 1 of normalizations. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_CHANNEL_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_CHANNEL_STATISTICS_INL_H_
#undef MEZZO_KERNELS_CPU_CHANNEL_STATISTICS_INL_H_
#else
#define MEZZO_KERNELS_CPU_CHANNEL_STATISTICS_INL_H_
#endif

#include "mezzo/kernels/cpu/norm/batch_norm-inl.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The arrays of one part in pass 1.
using enum kernels::NormPart::Array;
inline constexpr std::int64_t kPartArrays = kernels::NormPart::kCount;

inline ChannelSums sums_of(const RowArrays& arrays, int part) {
  const std::int64_t first = part * kPartArrays;
  return {arrays[first + kSum], arrays[first + kSquares], arrays[first + kChunkSum],
          arrays[first + kChunkSquares]};
}

// Sums x - shift and its squares over the rows [begin, end).
template <class T>
void sum_shifted(const T* x, const ChannelRows& rows, std::int64_t begin, std::int64_t end,
                 const float* shift, const ChannelSums& sums) {
  const std::int64_t width = rows.width();
  const auto add = [&](std::int64_t row, std::int64_t group, std::int64_t count) HWY_ATTR {
    const T* first = x + row * width;
    for_row(count, [&](std::int64_t c, auto part) HWY_ATTR {
      const auto from = load(shift + c);
      auto sum = load(sums.chunk_first + c);
      auto squares = load(sums.chunk_second + c);
      for (std::int64_t r = 0; r < group; ++r) {
        const T* const at = first + r * width + c;
        prefetch(at, group * width * static_cast<std::int64_t>(sizeof(T)));  // the next group's
        const auto v = keep(hn::Sub(load(at, part), from), part);
        sum = hn::Add(sum, v);
        squares = hn::MulAdd(v, v, squares);
      }
      store(sum, sums.chunk_first + c);
      store(squares, sums.chunk_second + c);
    });
  };
  sum_rows<kGroupRows>(rows, begin, end, sums, add);
}

// The number of first rows of a part whose mean is its shift: see part_statistics().
inline std::int64_t head_of(const ChannelRows& rows, int part) {
  constexpr std::int64_t kFewestRows = 16;
  const std::int64_t count = rows.first_row(part + 1) - rows.first_row(part);
  return std::min(std::max(kFewestRows, count / 32), count);
}

// Pass 1 of one part up to row `end`. With the sums S of x - k and Q of its squares, the variance
// is (Q - S * S / n) / n. With k = 0 that cancels: a mean of 1000 and a deviation of 1 leave f32 no
// bit. Here k is the mean of the part's first rows. If it is t deviations off the part's mean,
// log2(1 + t * t) bits are lost. If those rows are a fraction f of the part, t * t is at most (1 -
// f) / f. So f = 1/32 bounds the loss by five bits for any data; usually none is lost. Chan, Golub
// and LeVeque, "Algorithms for computing the sample variance", 1983.
template <class T>
void part_statistics(const T* x, const ChannelRows& rows, const RowArrays& arrays, int part,
                     std::int64_t end) {
  const std::int64_t begin = rows.first_row(part);
  const std::int64_t head = head_of(rows, part);
  const ChannelSums sums = sums_of(arrays, part);
  float* shift = arrays[part * kPartArrays + kShift];
  for (std::int64_t i = 0; i < kPartArrays; ++i) arrays.clear(part * kPartArrays + i);
  sum_shifted(x, rows, begin, begin + head, shift, sums);
  const std::int64_t pixels = std::min((begin + head) * rows.fold, rows.pixels) - begin * rows.fold;
  const auto share = hn::Set(F32(), 1.0F / static_cast<float>(pixels));
  for_row(rows.channels, [&](std::int64_t c, auto some) HWY_ATTR {
    store(hn::Mul(load(sums.first + c, some), share), shift + c, some);
  });
  spread(rows, shift);
  arrays.clear(part * kPartArrays + kSum);
  arrays.clear(part * kPartArrays + kSquares);
  sum_shifted(x, rows, begin, end, shift, sums);
}

// Combines the parts' sums, in the order of the parts, into mean and biased variance. All values
// stay relative to the first part's shift until the end, so that a large mean is rounded only once.
inline void combine_statistics(const ChannelRows& rows, const RowArrays& arrays, float* mean,
                               float* var) {
  const auto total = static_cast<float>(rows.pixels);
  for_row(rows.channels, [&](std::int64_t c, auto some) HWY_ATTR {
    const auto origin = load(arrays[kShift] + c);
    const auto offset_of = [&](int part) HWY_ATTR {  // the part's mean - origin
      const std::int64_t first = part * kPartArrays;
      const auto n = static_cast<float>(rows.first_pixel(part + 1) - rows.first_pixel(part));
      return hn::MulAdd(load(arrays[first + kSum] + c), hn::Set(F32(), 1 / n),
                        hn::Sub(load(arrays[first + kShift] + c), origin));
    };
    auto offset = hn::Zero(F32());
    for (int part = 0; part < rows.parts; ++part) {
      const auto n = static_cast<float>(rows.first_pixel(part + 1) - rows.first_pixel(part));
      offset = hn::MulAdd(offset_of(part), hn::Set(F32(), n / total), offset);
    }
    auto squares = hn::Zero(F32());
    for (int part = 0; part < rows.parts; ++part) {
      const auto n = static_cast<float>(rows.first_pixel(part + 1) - rows.first_pixel(part));
      const auto sum = load(arrays[part * kPartArrays + kSum] + c);
      const auto within = hn::NegMulAdd(hn::Mul(sum, hn::Set(F32(), 1 / n)), sum,
                                        load(arrays[part * kPartArrays + kSquares] + c));
      const auto between = hn::Sub(offset_of(part), offset);
      squares = hn::Add(squares, hn::MulAdd(hn::Mul(between, between), hn::Set(F32(), n), within));
    }
    const auto variance = hn::Mul(squares, hn::Set(F32(), 1 / total));
    const auto zero = hn::Zero(F32());
    store(hn::Add(origin, offset), mean + c, some);
    // Rounding can leave a constant channel slightly below zero. A NaN is not less and stays.
    store(hn::IfThenElse(hn::Lt(variance, zero), zero, variance), var + c, some);
  });
}

// Runs pass 1 of all parts; `arrays` has kPartArrays for each.
template <class T>
void channel_statistics(const T* x, const ChannelRows& rows, const RowArrays& arrays, float* mean,
                        float* var) {
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const auto number = static_cast<int>(part);
      part_statistics(x, rows, arrays, number, rows.first_row(number + 1));
    }
  });
  combine_statistics(rows, arrays, mean, var);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
