// A call of the emulated cublasLtMatmul(): its algorithm, and what it computes.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/emulated_card/cublaslt_problem.h"
#include "tests/emulated_card/elements.h"

namespace mezzo::emulated_card {

inline constexpr std::array<const char*, 5> kPlaceNames{"A", "B", "C", "D", "the bias"};

// The contents of cublasLtMatmulAlgo_t.
struct Algorithm {
  static constexpr std::uint32_t kMark = 0x6d657a7aU;

  std::uint32_t mark = kMark;
  std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  std::uint64_t configuration = 0;
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 5> alignments{};  // of a, b, c, d, bias
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

// A hash of everything for which an algorithm is chosen, except pointers.
inline std::uint64_t configuration_of(const Problem& p) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, by words
  const auto mix = [&](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  };
  const Operation& o = p.operation;
  for (const std::int32_t value : {o.compute, o.transpose_a, o.transpose_b, o.bias_type,
                                   o.scale_mode_a, o.scale_mode_b, std::int32_t{o.fast_sums}}) {
    mix(value);
  }
  mix(o.epilogue);
  mix(o.bias_step);
  for (const Layout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    mix(layout->type);
    mix(layout->rows);
    mix(layout->columns);
    mix(layout->stride);
    mix(layout->batch);
    mix(layout->step);
  }
  return hash;
}

inline Element bias_element(const Problem& p) {
  Layout layout;
  layout.type = static_cast<std::uint32_t>(bias_type_of(p));
  return element_of(layout);
}

// The lowest set bit, up to the widest load of a GPU; larger alignments are coincidence.
inline std::uint32_t alignment_of(const void* data) {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(data) | 16U;
  return static_cast<std::uint32_t>(bits & (0 - bits));
}

// Why no kernel could load the operands; empty if one can.
inline std::string fault_of(const Algorithm& algorithm, const Problem& p) {
  const std::array<const Layout*, 5> matrices{&p.a, &p.b, &p.c, &p.d, &p.d};
  for (std::size_t i = 0; i < (p.has_bias() ? 5 : 4); ++i) {
    const std::uint32_t alignment = algorithm.alignments[i];
    const std::size_t size = i < 4 ? size_of(element_of(*matrices[i])) : size_of(bias_element(p));
    if (!std::has_single_bit(alignment) || alignment < size) {
      return kPlaceNames[i] + std::string(" is aligned to ") + std::to_string(alignment) +
             ", its elements have " + std::to_string(size) + " bytes";
    }
  }
  return {};
}

inline Algorithm choose(const Problem& p, const Preference& preference) {
  constexpr std::uint64_t kWorkspace = 1024;
  Algorithm algorithm;
  algorithm.configuration = configuration_of(p);
  std::copy(preference.alignments.begin(), preference.alignments.end(),
            algorithm.alignments.begin());
  algorithm.alignments[4] = alignment_of(p.operation.bias);
  // Uses the least precise scheme that the caller allows, since the allowance counts as permission.
  for (const std::uint32_t scheme :
       {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE,
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) {
    if (preference.workspace < kWorkspace || (preference.reductions & scheme) == 0) continue;
    algorithm.reduction = scheme;
    algorithm.workspace = kWorkspace;
    break;
  }
  return algorithm;
}

// A call of cublasLtMatmul() with everything that it needs when it runs.
struct Call {
  Problem problem;
  Algorithm algorithm;
  float alpha = 0, beta = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;

  void run() const;

 private:
  std::vector<Panels> read_a(std::int64_t item) const;
  void read_b(std::int64_t item, std::int64_t column, float* to) const;
  void add(const double* sums, std::vector<float>& totals) const;
  void write(std::int64_t item, std::int64_t column, const std::vector<float>& totals) const;
  void multiply(std::int64_t item, const std::vector<Panels>& parts, std::int64_t first,
                std::int64_t count) const;
  float prepared(float value) const {
    return problem.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? round_to_tf32(value) : value;
  }
  // What a sum is multiplied by, of row i and column j.
  float scale_of_sum(std::int64_t i, std::int64_t j) const {
    const Operation& o = problem.operation;
    const auto scale = [](const void* scales, std::int32_t mode, std::int64_t at) {
      if (scales == nullptr || mode == kScaleOf32) return 1.0F;
      return static_cast<const float*>(scales)[mode == kScaleOfLine ? at : 0];
    };
    return scale(o.scale_a, o.scale_mode_a, i) * scale(o.scale_b, o.scale_mode_b, j);
  }
  // Reductions in the result's type have an effect: each half of a sum is rounded.
  bool has_rounded_parts() const {
    return algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ||
           algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }
};

// The scale of the block of 32 that term k of a line lies in: a power of two, or 1 if there are no
// blocks. Scales lie in tiles of 128 lines times 4 blocks, those of lines i, i + 32, i + 64 and
// i + 96 beside each other: "1D block scaling factors layout" in the documentation.
inline float block_scale_of(const void* scales, std::int32_t mode, std::int64_t terms,
                            std::int64_t line, std::int64_t k) {
  if (mode != kScaleOf32) return 1;
  const std::int64_t tiles = (terms + 127) / 128;
  const std::int64_t block = k / 32;
  const std::int64_t tile = line / 128 * tiles + block / 4;
  const std::int64_t at = tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
  const int code = static_cast<const std::uint8_t*>(scales)[at];
  constexpr int kNaN = 255;
  return code == kNaN ? std::nanf("") : std::ldexp(1.0F, code - 127);
}

// op(A), transposed; in two parts if they are rounded.
inline std::vector<Panels> Call::read_a(std::int64_t item) const {
  const Problem& p = problem;
  const std::int64_t middle = has_rounded_parts() ? p.k / 2 : p.k;
  std::vector<Panels> parts;
  if (middle > 0) parts.emplace_back(middle, p.m);
  if (middle < p.k) parts.emplace_back(p.k - middle, p.m);
  const bool transpose = p.operation.transpose_a == CUBLAS_OP_T;
  std::vector<float> row(static_cast<std::size_t>(p.m));
  for (std::int64_t i = 0; i < p.k; ++i) {
    const std::int64_t first = item * p.a.step + (transpose ? i : i * p.a.stride);
    widen(element_of(p.a), a, first, transpose ? p.a.stride : 1, p.m, row.data());
    for (std::size_t line = 0; line < row.size(); ++line) {
      row[line] =
          prepared(row[line]) * block_scale_of(p.operation.scale_a, p.operation.scale_mode_a, p.k,
                                               static_cast<std::int64_t>(line), i);
    }
    const bool is_second = middle > 0 && i >= middle;
    parts[is_second ? 1 : 0].set_row(is_second ? i - middle : i, row.data(), p.m);
  }
  return parts;
}

// Reads a column of op(B).
inline void Call::read_b(std::int64_t item, std::int64_t column, float* to) const {
  const Problem& p = problem;
  const bool transpose = p.operation.transpose_b == CUBLAS_OP_T;
  const std::int64_t first = item * p.b.step + (transpose ? column : column * p.b.stride);
  widen(element_of(p.b), b, first, transpose ? p.b.stride : 1, p.k, to);
  for (std::int64_t i = 0; i < p.k; ++i) {
    to[i] = prepared(to[i]) *
            block_scale_of(p.operation.scale_b, p.operation.scale_mode_b, p.k, column, i);
  }
}

// Adds a part of the sums of a column.
inline void Call::add(const double* sums, std::vector<float>& totals) const {
  for (float& total : totals) {
    auto part = static_cast<float>(*sums++);
    if (problem.operation.fast_sums != 0) part = round_to(Element::kBf16, part);  // 14 bits, about
    total += has_rounded_parts() ? round_to(element_of(problem.d), part) : part;
  }
}

// Computes a column of D from its sums.
inline void Call::write(std::int64_t item, std::int64_t column,
                        const std::vector<float>& totals) const {
  const Problem& p = problem;
  const Element type = element_of(p.d);
  for (std::int64_t i = 0; i < p.m; ++i) {
    float value = alpha * scale_of_sum(i, column) * totals[static_cast<std::size_t>(i)];
    if (beta != 0) {  // otherwise C is not read: it may hold anything
      value += beta * widen(type, c, item * p.c.step + column * p.c.stride + i);
    }
    if (p.has_bias()) {
      value += widen(bias_element(p), p.operation.bias, item * p.operation.bias_step + i);
    }
    narrow(type, value, d, item * p.d.step + column * p.d.stride + i);
  }
}

// Computes columns of the result, from `first` on.
inline void Call::multiply(std::int64_t item, const std::vector<Panels>& parts, std::int64_t first,
                           std::int64_t count) const {
  const std::int64_t k = problem.k;
  std::vector<float> of_b(static_cast<std::size_t>(count * k));
  for (std::int64_t i = 0; i < count; ++i) read_b(item, first + i, of_b.data() + i * k);
  std::vector<std::vector<float>> totals(static_cast<std::size_t>(count),
                                         std::vector<float>(static_cast<std::size_t>(problem.m)));
  std::int64_t done = 0;
  for (const Panels& part : parts) {
    std::vector<float> rows(static_cast<std::size_t>(count * part.depth()));
    for (std::int64_t i = 0; i < count; ++i) {
      std::copy_n(of_b.data() + i * k + done, part.depth(), rows.data() + i * part.depth());
    }
    std::vector<double> sums(static_cast<std::size_t>(count * part.columns()));
    add_product(rows.data(), count, part, sums.data());
    done += part.depth();
    for (std::int64_t i = 0; i < count; ++i) {
      add(sums.data() + i * part.columns(), totals[static_cast<std::size_t>(i)]);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    write(item, first + i, totals[static_cast<std::size_t>(i)]);
  }
}

inline void Call::run() const {
  constexpr std::int64_t kAtOnce = 32;  // columns of the result
  spoil(workspace, algorithm.workspace);
  for (std::int64_t item = 0; item < problem.batch(); ++item) {
    const std::vector<Panels> parts = read_a(item);
    for (std::int64_t first = 0; first < problem.n; first += kAtOnce) {
      multiply(item, parts, first, std::min(kAtOnce, problem.n - first));
    }
  }
}

}  // namespace mezzo::emulated_card
