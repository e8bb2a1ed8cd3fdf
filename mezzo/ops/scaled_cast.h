// Rounding to eight bits with a scale.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo {

// A matrix of numbers of eight bits and what they have to be multiplied by.
struct ScaledTensor {
  Tensor codes;  // e4m3 or e5m2 [rows, columns]
  // kTensor: f32 [1]. kLine: f32, one for each line. kBlock: u8, exponents of 2 in e8m0, [rows,
  // blocks of a row], or [blocks of a column, columns] along columns.
  Tensor scales;
  Tensor amax;  // kTensor: the largest absolute value before rounding, f32 [1]
  ScaleBy by = ScaleBy::kTensor;
  bool columns = false;
};

struct ScaledCastOptions {
  DType dtype = DType::kE4m3;
  ScaleBy by = ScaleBy::kTensor;
  // Whether lines and blocks lie along the columns, for a product that sums over them. A scale must
  // not change along a sum, or it could not be taken out of it; blocks may.
  bool columns = false;
  // kTensor only: what elements are multiplied by, f32 [1]. Undefined: largest / amax.
  Tensor scale{};
};

// x [rows, columns] in f32 or a lower precision, multiplied by its scales and rounded to nearest,
// ties to even. Finite elements saturate; infinity and NaN become NaN (in e5m2, infinity stays),
// so that a check of gradients still finds them. Has no gradient. Throws ArgumentError for other
// dtypes and ranks.
ScaledTensor scaled_cast(const Tensor& x, const ScaledCastOptions& options);

// The numbers that the codes and scales stand for, in f32, without history.
Tensor unscaled(const ScaledTensor& x);

}  // namespace mezzo
