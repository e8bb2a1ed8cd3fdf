// Pass 1 of batch normalization for kernels that make the rows themselves: see batch_norm.cpp.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/channels.h"

namespace mezzo::kernels {

// Of one part of the rows, per channel: sums of x - shift and of its squares.
struct NormPart {
  float* shift = nullptr;
  float* sum = nullptr;
  float* squares = nullptr;
  float* chunk_sum = nullptr;  // of the last rows, up to kChunkRows of them
  float* chunk_squares = nullptr;
};

// Adding up every part's rows in their order, chunk by chunk, gives the bits that batch_norm finds.
class NormSums {
 public:
  // Rows of a chunk, counted from the part's first one: then, and behind the last row, its sums are
  // added to those of the part, and begin again at 0.
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
