// Pass 1 of batch normalization for kernels that make the rows themselves: see batch_norm.cpp.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/norm/channels.h"

namespace mezzo::kernels {

// The arrays of one part of the rows, `length` apart, with a number per channel: sums of x - shift
// and of its squares, in all and of the last rows, up to NormSums::kChunkRows of them.
struct NormPart {
  enum Array : std::int64_t { kShift, kSum, kSquares, kChunkSum, kChunkSquares, kCount };

  float* first = nullptr;
  std::int64_t length = 0;

  float* operator[](Array array) const { return first + array * length; }
};

// Adding up every part's rows in their order, chunk by chunk, gives the bits that batch_norm finds.
class NormSums {
 public:
  // Rows of a chunk, counted from the part's first one: then, and behind the last row, its sums are
  // added to those of the part, and begin again at 0. Adding millions of terms one by one to one
  // f32 would lose the last of them; in two levels the error of a sum is that of a few hundred.
  static constexpr std::int64_t kChunkRows = 256;

  // Of a channels-last [n, c, h, w].
  explicit NormSums(const Shape& shape);

  const ChannelRows& rows() const { return rows_; }
  // How many rows of a part are to be there at first: whole chunks, or all.
  std::int64_t rows_at_first(int part) const;
  // Chooses the shift and adds these rows up, of a bf16 block of all rows.
  NormPart begin(int part, const BFloat16* rows) const;
  // Mean and biased variance.
  void combine(float* mean, float* var) const;

 private:
  ChannelRows rows_;
  Tensor arrays_;
  float* data_;
};

}  // namespace mezzo::kernels
