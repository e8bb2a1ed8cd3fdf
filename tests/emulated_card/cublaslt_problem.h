// A matrix product as requested from cuBLASLt, and whether the library supports it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include <cublasLt.h>

#include "tests/emulated_card/elements.h"

namespace mezzo::emulated_card {

// The descriptions behind the opaque types of the header. Values are checked when they are used, as
// in the real library; their sizes are checked immediately.
struct Layout : cublasLtMatrixLayoutOpaque_t {
  std::uint32_t type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;  // from column to column
  std::int32_t batch = 1;
  std::int64_t step = 0;  // from one matrix of the batch to the next
};

struct Operation : cublasLtMatmulDescOpaque_t {
  std::int32_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t scale = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N;
  std::int32_t transpose_b = CUBLAS_OP_N;
  std::int32_t transpose_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // the result's
  std::int64_t bias_step = 0;
  // Of operands of eight bits; null: 1.
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  std::int32_t scale_mode_a = 0;  // one f32 for the matrix
  std::int32_t scale_mode_b = 0;
  std::int8_t fast_sums = 0;
};

// The modes of scales under the numbers that they have in headers that know them.
enum ScaleMode : std::int32_t { kOneScale = 0, kScaleOf32 = 2, kScaleOfLine = 3 };

struct Preference : cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};  // of a, b, c, d
};

// A checked product and everything that determines its algorithm.
struct Problem {
  Operation operation;
  Layout a, b, c, d;
  std::int64_t m = 0, n = 0, k = 0;

  bool has_bias() const { return operation.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  std::int64_t batch() const { return d.batch; }
};

inline Element element_of(const Layout& layout) {
  switch (layout.type) {
    case CUDA_R_16BF: return Element::kBf16;
    case CUDA_R_16F: return Element::kF16;
    case CUDA_R_8F_E4M3: return Element::kE4m3;
    case CUDA_R_8F_E5M2: return Element::kE5m2;
    default: return Element::kF32;
  }
}

inline bool is_known_type(const Layout& layout) {
  return layout.type == CUDA_R_32F || element_of(layout) != Element::kF32;
}

inline bool has_eight_bits(const Problem& p) {
  return is_eight_bit(element_of(p.a)) || is_eight_bit(element_of(p.b));
}

// The type of the bias, where the operation leaves it to the library.
inline std::int32_t bias_type_of(const Problem& p) {
  const bool is_narrower = has_eight_bits(p) && p.d.type == CUDA_R_32F;
  return is_narrower ? CUDA_R_16BF : static_cast<std::int32_t>(p.d.type);
}

// The distance from the first to the last element over all matrices.
inline std::int64_t extent_of(const Layout& layout) {
  return layout.step * (layout.batch - 1) +
         layout.stride * (static_cast<std::int64_t>(layout.columns) - 1) +
         static_cast<std::int64_t>(layout.rows);
}

inline ByteRange range_of(const Layout& layout, const void* data) {
  return {data, static_cast<std::size_t>(extent_of(layout)) * size_of(element_of(layout))};
}

// The fault of a matrix by itself; empty if there is none.
inline std::string fault_of(const Layout& layout) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (layout.order != CUBLASLT_ORDER_COL) return "an order other than by columns";
  if (layout.rows == 0 || layout.columns == 0) return "a matrix without elements";
  if (layout.rows > kMost || layout.columns > kMost) return "a size beyond 32 bits";
  if (layout.stride < static_cast<std::int64_t>(layout.rows)) return "columns that overlap";
  if (layout.batch < 1) return "a batch of none";
  if (layout.step < 0) return "a batch that runs backwards";
  return {};
}

// Whether the matrices of a batch are disjoint, as results must be.
inline bool are_apart(const Layout& d) {
  if (d.batch == 1) return true;
  const auto rows = static_cast<std::int64_t>(d.rows);
  const bool behind = d.step >= d.stride * (static_cast<std::int64_t>(d.columns) - 1) + rows;
  const bool beside = d.step >= rows && d.stride >= d.step * (d.batch - 1) + rows;
  return behind || beside;
}

inline std::string fault_of_sizes(Problem& p) {
  const auto is_operation = [](std::int32_t value) {
    return value == CUBLAS_OP_N || value == CUBLAS_OP_T;
  };
  if (!is_operation(p.operation.transpose_a) || !is_operation(p.operation.transpose_b)) {
    return "a transform that is neither N nor T";
  }
  const bool transpose_a = p.operation.transpose_a == CUBLAS_OP_T;
  const bool transpose_b = p.operation.transpose_b == CUBLAS_OP_T;
  p.m = static_cast<std::int64_t>(transpose_a ? p.a.columns : p.a.rows);
  p.k = static_cast<std::int64_t>(transpose_a ? p.a.rows : p.a.columns);
  p.n = static_cast<std::int64_t>(transpose_b ? p.b.rows : p.b.columns);
  const auto k_of_b = static_cast<std::int64_t>(transpose_b ? p.b.columns : p.b.rows);
  if (p.k != k_of_b) {
    return "op(A) has " + std::to_string(p.k) + " columns, op(B) has " + std::to_string(k_of_b) +
           " rows";
  }
  for (const Layout* result : {&p.c, &p.d}) {
    if (static_cast<std::int64_t>(result->rows) != p.m ||
        static_cast<std::int64_t>(result->columns) != p.n) {
      return "C or D is " + std::to_string(result->rows) + "x" + std::to_string(result->columns) +
             ", the product is " + std::to_string(p.m) + "x" + std::to_string(p.n);
    }
  }
  if (p.a.batch != p.d.batch || p.b.batch != p.d.batch || p.c.batch != p.d.batch) {
    return "batches differ";
  }
  return are_apart(p.d) ? std::string() : "results of the batch overlap";
}

// Why no mode of scales fits operands of eight bits: the documentation's table of them.
inline std::string unsupported_scales(const Operation& o) {
  if (o.scale_mode_a != o.scale_mode_b) return "scales of different modes";
  switch (o.scale_mode_a) {
    case kOneScale: return {};
    case kScaleOfLine: return capability() == 90 ? std::string() : "scales of lines on this card";
    case kScaleOf32: return capability() >= 100 ? std::string() : "scales of blocks on this card";
    default: return "a mode of scales that is not emulated";
  }
}

// The documentation's rules for operands of eight bits. Sizes and leading dimensions must be whole
// packs of 16 bytes; that of B need not where it is not transposed.
inline std::string unsupported_eight_bits(const Problem& p) {
  constexpr std::int64_t kPack = 16;
  const Operation& o = p.operation;
  if (capability() < 89) return "eight bits on this card";
  if (!is_eight_bit(element_of(p.a)) || !is_eight_bit(element_of(p.b))) {
    return "eight bits times more";
  }
  if (p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2) return "e5m2 times e5m2";
  if (p.d.type == CUDA_R_8F_E4M3 || p.d.type == CUDA_R_8F_E5M2) {
    return "a result of eight bits, which is not emulated";
  }
  const bool takes_all = capability() >= 100 && capability() < 120;
  if (!takes_all && (o.transpose_a != CUBLAS_OP_T || o.transpose_b != CUBLAS_OP_N)) {
    return "eight bits whose sums do not run along columns of memory";
  }
  const auto size = static_cast<std::int64_t>(size_of(element_of(p.d)));
  for (const std::int64_t bytes :
       {static_cast<std::int64_t>(p.a.rows), static_cast<std::int64_t>(p.b.rows), p.a.stride,
        p.b.stride, p.m * size, p.c.stride * size, p.d.stride * size}) {
    if (bytes % kPack != 0) return "rows of eight bits that are not whole packs of 16 bytes";
  }
  return unsupported_scales(o);
}

// Why no row of the documentation's tables fits operands of more bits.
inline std::string unsupported_wide(const Problem& p) {
  const Operation& o = p.operation;
  if (o.scale_a != nullptr || o.scale_b != nullptr) return "scales of 16 bits or more";
  if (p.a.type != p.b.type) return "operands of different types";
  if (p.d.type != p.a.type && p.d.type != CUDA_R_32F) return "a result of another 16-bit type";
  return {};
}

// Why the documentation's table of types has no row for a problem.
inline std::string unsupported(const Problem& p) {
  const Operation& o = p.operation;
  for (const Layout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    if (!is_known_type(*layout)) return "a type that is not emulated";
  }
  if (o.compute != CUBLAS_COMPUTE_32F && o.compute != CUBLAS_COMPUTE_32F_FAST_TF32) {
    return "a compute type that is not emulated";
  }
  if (o.scale != CUDA_R_32F) return "a scale type other than f32";
  if (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type != CUDA_R_32F) {
    return "TF32 of 16-bit matrices";
  }
  if (p.c.type != p.d.type) return "C and D of different types";
  if (const std::string why = has_eight_bits(p) ? unsupported_eight_bits(p) : unsupported_wide(p);
      !why.empty()) {
    return why;
  }
  if (o.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return "factors that are not the host's";
  if (o.transpose_c != CUBLAS_OP_N) return "a transposed C";
  if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT && o.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    return "an epilogue that is not emulated";
  }
  if (p.has_bias() && o.bias_type != -1 && o.bias_type != bias_type_of(p)) {
    return "a bias of another type than the table has for the result";
  }
  return {};
}

}  // namespace mezzo::emulated_card
