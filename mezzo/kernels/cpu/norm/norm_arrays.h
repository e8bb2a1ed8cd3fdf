// A batch normalization by given statistics, for kernels that read what it would give before
// anybody has computed it.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/fusion/pending_norm.h"

namespace mezzo::kernels {

// (x - mean) * scale + bias, and its positive part if `relu`; f32 numbers per channel.
struct NormLines {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  bool relu = false;
};

// The numbers of a normalisation, but for its residual. Lines are as long as whole blocks of
// kBlock, with zeros behind the last channel.
class NormArrays {
 public:
  static constexpr std::int64_t kBlock = 16;

  explicit NormArrays(const PendingNorm& norm);

  NormLines lines() const { return {array(kMean), array(kScale), array(kBias), relu_}; }
  // y gets `rows` rows of x normalised, with the bits of batch_norm. Rows are as long as there are
  // channels and follow each other.
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
