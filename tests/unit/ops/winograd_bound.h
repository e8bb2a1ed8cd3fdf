// A bound on the error of Winograd's method for 3x3 kernels, computed from its transforms: its
// sums, with magnitudes in place of values. The error of a result is at most this times 2^-24 times
// the number of roundings on its way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo::test {

struct Matrix {
  Matrix(int row_count, int column_count)
      : rows(row_count), columns(column_count), numbers(row_count * column_count) {}

  double& operator()(int i, int j) { return numbers[i * columns + j]; }
  double operator()(int i, int j) const { return numbers[i * columns + j]; }

  Matrix transposed() const {
    Matrix result(columns, rows);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) result(j, i) = (*this)(i, j);
    }
    return result;
  }
  Matrix operator*(const Matrix& right) const {
    Matrix product(rows, right.columns);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < right.columns; ++j) {
        for (int k = 0; k < columns; ++k) product(i, j) += (*this)(i, k) * right(k, j);
      }
    }
    return product;
  }
  // Adds the products of elements at the same position.
  void add_products(const Matrix& a, const Matrix& b) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += a.numbers[i] * b.numbers[i];
  }

  int rows, columns;
  std::vector<double> numbers;
};

// The magnitudes of the transforms of Toom and Cook's method along one axis, for up to four results
// and three taps. It evaluates polynomials at 0, +-5/8, +-3/2 and infinity; Lavin and Gray's points
// 0, +-1, +-2 lose more. (Barabasz et al., "Error analysis and improving the accuracy of Winograd
// convolution for deep neural networks", 2018.) Fewer results use the first of the finite points
// and infinity; the rows of the other points are zero.
struct WinogradTransforms {
  static constexpr int kTile = 6;
  static constexpr int kResults = 4;
  static constexpr int kTaps = 3;

  explicit WinogradTransforms(int results = kResults) {
    const std::vector<double> points{0, 0.625, -0.625, 1.5, -1.5};
    const int finite = results + kTaps - 2;
    const std::vector<double> all = product_of_roots(points, finite, -1);
    for (std::size_t k = 0; k < all.size(); ++k) {
      image(kTile - 1, static_cast<int>(k)) = std::abs(all[k]);
    }
    for (int i = 0; i < kTile - 1; ++i) {
      for (int k = 0; k < kTaps; ++k) {
        kernel(i, k) = std::pow(std::abs(points[i]), k) / norm(points, kTile - 1, i);
      }
      if (i >= finite) continue;
      // Kernels are divided by the norm over all points.
      const double quotient = norm(points, kTile - 1, i) / norm(points, finite, i);
      const std::vector<double> others = product_of_roots(points, finite, i);
      for (std::size_t k = 0; k < others.size(); ++k) {
        image(i, static_cast<int>(k)) = quotient * std::abs(others[k]);
      }
      for (int k = 0; k < results; ++k) result(k, i) = std::pow(std::abs(points[i]), k);
    }
    kernel(kTile - 1, kTaps - 1) = 1;
    result(results - 1, kTile - 1) = 1;
  }

  // The transforms of the tile that begins at `first`, on an axis of `size` results.
  static WinogradTransforms at(std::int64_t first, std::int64_t size) {
    return WinogradTransforms(static_cast<int>(std::min<std::int64_t>(kResults, size - first)));
  }

  // The product of that point's distances from the others.
  static double norm(const std::vector<double>& points, int count, int i) {
    double product = 1;
    for (int j = 0; j < count; ++j) product *= j == i ? 1 : std::abs(points[i] - points[j]);
    return product;
  }

  // The coefficients of the product of (x - point) over all points but one, from x^0 on.
  static std::vector<double> product_of_roots(const std::vector<double>& points, int count,
                                              int but) {
    std::vector<double> product{1};
    for (int j = 0; j < count; ++j) {
      if (j != but) product = times_root(product, points[j]);
    }
    return product;
  }

  static std::vector<double> times_root(const std::vector<double>& polynomial, double root) {
    std::vector<double> product(polynomial.size() + 1);
    for (std::size_t k = 0; k < polynomial.size(); ++k) {
      product[k + 1] += polynomial[k];
      product[k] -= root * polynomial[k];
    }
    return product;
  }

  Matrix kernel{kTile, kTaps};
  Matrix image{kTile, kTile};
  Matrix result{kResults, kTile};
};

// The magnitudes of a square of a dense f32 tensor [n, c, h, w], from that row and column on; 0
// outside of it.
inline Matrix magnitudes_at(const Tensor& x, std::int64_t n, std::int64_t c, std::int64_t row,
                            std::int64_t column, int size) {
  const Shape& s = x.shape();
  Matrix square(size, size);
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      const std::int64_t h = row + i;
      const std::int64_t w = column + j;
      if (h < 0 || h >= s[2] || w < 0 || w >= s[3]) continue;
      const std::int64_t at = ((n * s[1] + c) * s[2] + h) * s[3] + w;
      square(i, j) = std::abs(static_cast<double>(x.data<float>()[at]));
    }
  }
  return square;
}

// The bound for one tile of y, [kResults, kResults] from the element `at` on: x [n, c, h, w] with
// that padding, weight [o, c, 3, 3].
inline Matrix winograd_bound(const Tensor& x, const Tensor& weight, const Sides& padding,
                             const Shape& at) {
  using T = WinogradTransforms;
  const Shape& s = x.shape();
  const T rows = T::at(at[2], s[2] + padding.top + padding.bottom - T::kTaps + 1);
  const T columns = T::at(at[3], s[3] + padding.left + padding.right - T::kTaps + 1);
  Matrix sums(T::kTile, T::kTile);
  for (std::int64_t c = 0; c < x.size(1); ++c) {
    const Matrix tile =
        magnitudes_at(x, at[0], c, at[2] - padding.top, at[3] - padding.left, T::kTile);
    const Matrix taps = magnitudes_at(weight, at[1], c, 0, 0, T::kTaps);
    sums.add_products(rows.image * tile * columns.image.transposed(),
                      rows.kernel * taps * columns.kernel.transposed());
  }
  return rows.result * sums * columns.result.transposed();
}

// The bound for the gradient of the [3, 3] taps of one pair of channels, from that of y [n, o, h,
// w].
inline Matrix winograd_weight_bound(const Tensor& grad, const Tensor& x, const Sides& padding,
                                    std::int64_t o, std::int64_t c) {
  using T = WinogradTransforms;
  Matrix sums(T::kTile, T::kTile);
  for (std::int64_t row = 0; row < grad.size(2); row += T::kResults) {
    const T rows = T::at(row, grad.size(2));
    for (std::int64_t column = 0; column < grad.size(3); column += T::kResults) {
      const T columns = T::at(column, grad.size(3));
      for (std::int64_t n = 0; n < x.size(0); ++n) {
        const Matrix tile =
            magnitudes_at(x, n, c, row - padding.top, column - padding.left, T::kTile);
        const Matrix result = magnitudes_at(grad, n, o, row, column, T::kResults);
        sums.add_products(rows.image * tile * columns.image.transposed(),
                          rows.result.transposed() * result * columns.result);
      }
    }
  }
  const T whole;
  return whole.kernel.transposed() * sums * whole.kernel;
}

}  // namespace mezzo::test
