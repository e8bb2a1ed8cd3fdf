#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/axis_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls row(at, n) for every row along the axis; at(j) is where its element j lies.
template <class Row>
void for_each_row(const RefArgs& args, Row row) {
  const Shape& shape = args.outputs[0].shape;
  const std::size_t axis = normalize_axis(args.attrs<AxisAttrs>().axis, shape.rank(), "softmax");
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t n = shape[axis];
  for (std::int64_t outer = 0; outer < shape.numel() / (n * inner); ++outer) {
    for (std::int64_t k = 0; k < inner; ++k) {
      row([=](std::int64_t j) { return (outer * n + j) * inner + k; }, n);
    }
  }
}

template <class At>
double max_of_row(const RefTensor& x, At at, std::int64_t n) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, x[at(j)]);
  return largest;
}

template <class Term>
double sum_of_row(std::int64_t n, Term term) {
  double total = 0;
  for (std::int64_t j = 0; j < n; ++j) total += term(j);
  return total;
}

}  // namespace

extern const RefKernel softmax = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  for_each_row(args, [&](auto at, std::int64_t n) {
    const double largest = max_of_row(x, at, n);
    const auto term = [&](std::int64_t j) { return std::exp(x[at(j)] - largest); };
    const double total = sum_of_row(n, term);
    for (std::int64_t j = 0; j < n; ++j) args.outputs[0][at(j)] = term(j) / total;
  });
};

extern const RefKernel log_softmax = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  for_each_row(args, [&](auto at, std::int64_t n) {
    const double largest = max_of_row(x, at, n);
    const double log_total =
        std::log(sum_of_row(n, [&](std::int64_t j) { return std::exp(x[at(j)] - largest); }));
    for (std::int64_t j = 0; j < n; ++j) args.outputs[0][at(j)] = x[at(j)] - largest - log_total;
  });
};

extern const RefKernel softmax_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& y = args.inputs[1];
  for_each_row(args, [&](auto at, std::int64_t n) {
    const double total = sum_of_row(n, [&](std::int64_t j) { return grad[at(j)] * y[at(j)]; });
    for (std::int64_t j = 0; j < n; ++j) {
      args.outputs[0][at(j)] = y[at(j)] * (grad[at(j)] - total);
    }
  });
};

extern const RefKernel log_softmax_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& y = args.inputs[1];
  for_each_row(args, [&](auto at, std::int64_t n) {
    const double total = sum_of_row(n, [&](std::int64_t j) { return grad[at(j)]; });
    for (std::int64_t j = 0; j < n; ++j) {
      args.outputs[0][at(j)] = grad[at(j)] - std::exp(y[at(j)]) * total;
    }
  });
};

}  // namespace mezzo::kernels::ref
