// The vectorised parts of a product of eight bits; scaled_matmul.cpp puts them together.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"

namespace mezzo::kernels {

// Codes [rows, columns] that become bf16.
struct WidenedCodes {
  const void* codes = nullptr;
  DType dtype = DType::kE4m3;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::uint8_t* scales = nullptr;  // of blocks; null: none
  bool along_columns = false;            // blocks lie along the columns
  BFloat16* out = nullptr;
};

// Sums [rows, columns] that become a result. a and b are one scale each, or with `by_line` one for
// each row and column; null: 1.
struct ScaledSums {
  const float* sums = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  bool by_line = false;
  const float* bias = nullptr;  // for each column; null: none
  const Tensor& out;
};

}  // namespace mezzo::kernels
