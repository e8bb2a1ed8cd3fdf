// What the reference kernels of lstm and gru have in common.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/dtype.h"
#include "mezzo/kernels/checked_lengths.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/recurrent_attrs.h"

namespace mezzo::kernels::ref {

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// A factor of a product as the dtype of the call holds it: the definition rounds the state to it.
inline double factor_in(DType dtype, double value) {
  switch (dtype) {
    case DType::kBf16: return static_cast<float>(convert_element<BFloat16>(value));
    case DType::kF16: return static_cast<float>(convert_element<Float16>(value));
    default: return value;
  }
}

// Walks through the steps of every sequence.
struct RecurrentWalk {
  std::int64_t batch;
  std::int64_t steps;
  std::int64_t h;
  bool reverse;
  std::vector<std::int64_t> lengths;

  // The position of step k of sequence n.
  std::int64_t at(std::int64_t n, std::int64_t k) const {
    return reverse ? lengths[static_cast<std::size_t>(n)] - 1 - k : k;
  }
  // Calls visit(row, previous) for the steps of sequence n in order, or backwards: rows of [b * t],
  // `previous` is -1 for the first step.
  template <class Visit>
  void forwards(std::int64_t n, const Visit& visit) const {
    for (std::int64_t k = 0; k < lengths[static_cast<std::size_t>(n)]; ++k) step(n, k, visit);
  }
  template <class Visit>
  void backwards(std::int64_t n, const Visit& visit) const {
    for (std::int64_t k = lengths[static_cast<std::size_t>(n)] - 1; k >= 0; --k) step(n, k, visit);
  }

 private:
  template <class Visit>
  void step(std::int64_t n, std::int64_t k, const Visit& visit) const {
    visit(n * steps + at(n, k), k == 0 ? -1 : n * steps + at(n, k - 1));
  }
};

// The walk of a call whose sequence of states has that shape, [b, t, h]. Throws ArgumentError,
// naming the operation, for lengths outside [0, t].
inline RecurrentWalk walk_of(const RefArgs& args, const Shape& sequence, std::size_t lengths,
                             const char* op) {
  const double* given = args.has(lengths) ? args.inputs[lengths].data : nullptr;
  return {sequence[0], sequence[1], sequence[2], args.attrs<RecurrentAttrs>().reverse,
          checked_lengths(given, sequence[0], sequence[1], op)};
}

inline void fill_zeros(const RefArgs& args) {
  for (const RefTensor& output : args.outputs) {
    for (double& value : output.values()) value = 0;
  }
}

// Element i of an input, or 0 if it is absent.
inline double value_or_zero(const RefArgs& args, std::size_t input, std::int64_t i) {
  return args.has(input) ? args.inputs[input][i] : 0;
}

}  // namespace mezzo::kernels::ref
