// Pass 1 of batch normalization, for kernels that compute the rows themselves (batch_norm.cpp).
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/norm/channels.h"

namespace mezzo::kernels {

// The arrays of one part of the rows, `length` apart, with a value per channel: the shift, and the
// sums of x - shift and of its squares. kSum and kSquares are totals; kChunkSum and kChunkSquares
// cover the current chunk of up to NormSums::kChunkRows rows.
struct NormPart {
  enum Array : std::int64_t { kShift, kSum, kSquares, kChunkSum, kChunkSquares, kCount };

  float* first = nullptr;
  std::int64_t length = 0;

  float* operator[](Array array) const { return first + array * length; }
};

// Sums of the parts. Adding every part's rows in order, chunk by chunk, gives the bits of
// batch_norm.
class NormSums {
 public:
  // Rows per chunk, counted from the part's first row. At the end of a chunk, and after the last
  // row, its sums are added to the part's and start again at 0. Adding millions of terms to one f32
  // would lose the last ones; in two levels, the error is that of a sum of a few hundred.
  static constexpr std::int64_t kChunkRows = 256;

  // `shape`: a channels-last [n, c, h, w].
  explicit NormSums(const Shape& shape);

  const ChannelRows& rows() const { return rows_; }
  // How many rows of a part must exist before begin(): whole chunks, or all.
  std::int64_t rows_at_first(int part) const;
  // Chooses the shift from those rows and adds them up. `rows`: the bf16 block of all parts' rows.
  NormPart begin(int part, const BFloat16* rows) const;
  // Computes mean and biased variance of all parts.
  void combine(float* mean, float* var) const;

 private:
  ChannelRows rows_;
  Tensor arrays_;
  float* data_;
};

}  // namespace mezzo::kernels
