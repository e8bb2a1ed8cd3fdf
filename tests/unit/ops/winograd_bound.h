// What Winograd's method for 3x3 kernels can lose, computed from its transforms: the sums that it
// makes, with magnitudes in place of numbers. A result is off by at most this times 2^-24 times the
// roundings on its way.
#pragma once

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
  // Adds the products of numbers at the same place.
  void add_products(const Matrix& a, const Matrix& b) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += a.numbers[i] * b.numbers[i];
  }

  int rows, columns;
  std::vector<double> numbers;
};

// The magnitudes of the transforms of Toom and Cook's method for four results and three taps that
// evaluates polynomials at 0, +-5/8, +-3/2 and infinity; Lavin and Gray's points
// 0, +-1, +-2 lose more. (Barabasz et al., "Error analysis and improving the accuracy of Winograd
// convolution for deep neural networks", 2018.)
struct WinogradTransforms {
  static constexpr int kTile = 6;
  static constexpr int kResults = 4;
  static constexpr int kTaps = 3;

  WinogradTransforms() {
    const std::vector<double> points{0, 0.625, -0.625, 1.5, -1.5};
    std::vector<double> all{1};  // coefficients of the product of (x - point), from x^0 on
    for (const double point : points) all = times_root(all, point);
    for (int k = 0; k < kTile; ++k) image(kTile - 1, k) = std::abs(all[k]);
    for (int i = 0; i < kTile - 1; ++i) {
      double norm = 1;
      std::vector<double> others{1};
      for (int j = 0; j < kTile - 1; ++j) {
        if (j == i) continue;
        norm *= std::abs(points[i] - points[j]);
        others = times_root(others, points[j]);
      }
      for (int k = 0; k < kTile - 1; ++k) image(i, k) = std::abs(others[k]);
      for (int k = 0; k < kTaps; ++k) kernel(i, k) = std::pow(std::abs(points[i]), k) / norm;
      for (int k = 0; k < kResults; ++k) result(k, i) = std::pow(std::abs(points[i]), k);
    }
    kernel(kTile - 1, kTaps - 1) = 1;
    result(kResults - 1, kTile - 1) = 1;
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

// For one tile of y, [kResults, kResults] from the element `at` on: x [n, c, h, w] with that
// padding, weight [o, c, 3, 3].
inline Matrix winograd_bound(const WinogradTransforms& t, const Tensor& x, const Tensor& weight,
                             const Sides& padding, const Shape& at) {
  Matrix sums(t.kTile, t.kTile);
  for (std::int64_t c = 0; c < x.size(1); ++c) {
    const Matrix tile =
        magnitudes_at(x, at[0], c, at[2] - padding.top, at[3] - padding.left, t.kTile);
    const Matrix taps = magnitudes_at(weight, at[1], c, 0, 0, t.kTaps);
    sums.add_products(t.image * tile * t.image.transposed(),
                      t.kernel * taps * t.kernel.transposed());
  }
  return t.result * sums * t.result.transposed();
}

// For the gradient of the [3, 3] taps of one pair of channels, from that of y [n, o, h, w].
inline Matrix winograd_weight_bound(const WinogradTransforms& t, const Tensor& grad,
                                    const Tensor& x, const Sides& padding, std::int64_t o,
                                    std::int64_t c) {
  Matrix sums(t.kTile, t.kTile);
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    for (std::int64_t row = 0; row < grad.size(2); row += t.kResults) {
      for (std::int64_t column = 0; column < grad.size(3); column += t.kResults) {
        const Matrix tile =
            magnitudes_at(x, n, c, row - padding.top, column - padding.left, t.kTile);
        const Matrix result = magnitudes_at(grad, n, o, row, column, t.kResults);
        sums.add_products(t.image * tile * t.image.transposed(),
                          t.result.transposed() * result * t.result);
      }
    }
  }
  return t.kernel.transposed() * sums * t.kernel;
}

}  // namespace mezzo::test
