// A batch normalization by given statistics, for kernels that normalise their input on the way
// instead of reading a normalised tensor.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/fusion/pending_norm.h"

namespace mezzo::kernels {

// Per channel in f32: (x - mean) * scale + bias, and the positive part of it if `relu`.
struct NormLines {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  bool relu = false;
};

// The arrays of a normalisation, without its residual. Each is padded with zeros to whole blocks of
// kBlock.
class NormArrays {
 public:
  static constexpr std::int64_t kBlock = 16;

  explicit NormArrays(const PendingNorm& norm);

  NormLines lines() const { return {array(kMean), array(kScale), array(kBias), relu_}; }
  // Writes `rows` rows of x, normalised, to y, with the bits of batch_norm. Rows have one element
  // per channel and are contiguous.
  void normalize(const BFloat16* x, std::int64_t rows, BFloat16* y) const;

 private:
  enum : std::int64_t { kMean, kVar, kWeight, kBias, kRstd, kScale, kArrays };
  float* array(std::int64_t i) const { return block_.mutable_data<float>() + i * length_; }
  void fill(std::int64_t i, const Tensor& values, float otherwise) const;

  std::int64_t channels_;
  std::int64_t length_;
  Tensor block_;
  bool relu_;
};

}  // namespace mezzo::kernels
