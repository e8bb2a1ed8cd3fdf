// Shared by the passes of batch normalization: loops over rows of channels, and sums per channel.
// Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_BATCH_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_BATCH_NORM_INL_H_
#undef MEZZO_KERNELS_CPU_BATCH_NORM_INL_H_
#else
#define MEZZO_KERNELS_CPU_BATCH_NORM_INL_H_
#endif

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/norm/channels.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"
#include "mezzo/kernels/cpu/norm/normalize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::ChannelRows;

// f32 arrays as long as a row, rounded up to whole vectors.
class RowArrays {
 public:
  RowArrays(const ChannelRows& rows, std::int64_t count)
      : length_(kernels::row_array_length(rows)),
        block_(empty({count, length_}, DType::kF32)),
        data_(block_.mutable_data<float>()) {}
  // Uses arrays that somebody else owns.
  RowArrays(const ChannelRows& rows, float* data)
      : length_(kernels::row_array_length(rows)), data_(data) {}

  float* operator[](std::int64_t i) const { return data_ + i * length_; }
  void clear(std::int64_t i) const { std::fill_n((*this)[i], length_, 0.0F); }

 private:
  std::int64_t length_;
  Tensor block_;
  float* data_;
};

// Adds the pixels of a row together: array[c] becomes the sum over the row's pixels.
inline void fold(const ChannelRows& rows, float* array) {
  for (std::int64_t pixel = 1; pixel < rows.fold; ++pixel) {
    const float* more = array + pixel * rows.channels;
    for_row(rows.channels, [&](std::int64_t c, auto part) HWY_ATTR {
      store(hn::Add(load(array + c, part), load(more + c, part)), array + c, part);
    });
  }
}

// The inverse of fold(): repeats the first pixel's values for every pixel of a row.
inline void spread(const ChannelRows& rows, float* array) {
  for (std::int64_t pixel = 1; pixel < rows.fold; ++pixel) {
    std::copy_n(array, rows.channels, array + pixel * rows.channels);
  }
}

// A [c] input as a row, or a constant if the input is absent.
inline void load_channels(const ChannelRows& rows, const Tensor& values, float otherwise,
                          float* array) {
  if (values.defined()) {
    const Tensor dense = kernels::dense(values, Format::kContiguous);
    std::copy_n(dense.data<float>(), rows.channels, array);
  } else {
    std::fill_n(array, rows.channels, otherwise);
  }
  spread(rows, array);
}

// Two sums per channel over a range of rows, computed by one thread.
struct ChannelSums {
  float* first;         // results
  float* second;        //
  float* chunk_first;   // sums of the current chunk
  float* chunk_second;  //
};

inline void add_chunk(const ChannelRows& rows, float* total, float* chunk) {
  for_row(rows.width(), [&](std::int64_t c, auto part) HWY_ATTR {
    store(hn::Add(load(total + c, part), load(chunk + c, part)), total + c, part);
    store(hn::Zero(F32()), chunk + c, part);
  });
}

// Rows that are summed for one vector of channels before the next: the sums stay in registers.
inline constexpr std::int64_t kGroupRows = 8;
inline constexpr std::int64_t kChunkRows = kernels::NormSums::kChunkRows;

// Calls add(row, rows, count) for groups of up to kGroup rows of `count` elements that cover
// [begin, end); it adds to the chunk's sums. Finally, `first` and `second` hold the totals per
// channel (summed over the pixels of a row).
template <std::int64_t kGroup, class AddGroup>
HWY_INLINE void sum_rows(const ChannelRows& rows, std::int64_t begin, std::int64_t end,
                         const ChannelSums& sums, const AddGroup& add) {
  std::int64_t in_chunk = 0;
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t count = rows.count(row);
    const bool incomplete = rows.count(end - 1) < rows.width();
    const std::int64_t last = incomplete && row < end - 1 ? end - 1 : end;
    const std::int64_t group = std::min(kGroup, last - row);
    add(row, group, count);
    row += group;
    in_chunk += group;
    if (in_chunk >= kChunkRows || row == end) {
      add_chunk(rows, sums.first, sums.chunk_first);
      add_chunk(rows, sums.second, sums.chunk_second);
      in_chunk = 0;
    }
  }
  fold(rows, sums.first);
  fold(rows, sums.second);
}

// Calls body(row) for the rows of [begin, end): blocks from the last to the first, and rows in
// order inside a block. A first pass has just left the end of the range in the cache; starting
// there saves reading that much from memory. Going forward inside a block keeps the hardware
// prefetcher working.
template <class Body>
HWY_INLINE void for_rows_backwards(const ChannelRows& rows, std::int64_t begin, std::int64_t end,
                                   const Body& body) {
  constexpr std::int64_t kBlockElements = 16384;
  const std::int64_t block = std::max<std::int64_t>(4, kBlockElements / rows.width());
  for (std::int64_t last = end; last > begin; last -= block) {
    for (std::int64_t row = std::max(begin, last - block); row < last; ++row) body(row);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
