// Shared by the tests of convolutions, matrix products and pooling.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "tests/unit/threads.h"

namespace mezzo::test {

using Doubles = std::vector<double>;

inline constexpr DType kVectorDTypes[] = {DType::kF32, DType::kBf16, DType::kF16};

// Uniform values in [-1, 1), rounded to the dtype.
inline Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = DType::kF32) {
  Generator generator(seed);
  const Tensor values = empty(shape, DType::kF64);
  auto* out = values.mutable_data<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) out[i] = 2 * generator.uniform() - 1;
  const Tensor x = empty(shape, dtype);
  copy_elements(values, x);
  return x;
}

inline Tensor parameter(const Shape& shape, std::uint64_t seed, DType dtype = DType::kF32) {
  return random_tensor(shape, seed, dtype).set_requires_grad(true);
}

// The same values in separate memory, without history.
inline Tensor plain_copy(const Tensor& x) {
  const Tensor copy = empty(x.shape(), x.dtype());
  copy_elements(x, copy);
  return copy;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  const Doubles left = a.to_vector<double>();
  const Doubles right = b.to_vector<double>();
  double largest = left.size() == right.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

// The largest difference of two f32 sums of `terms` products of values below 1 in different orders:
// sqrt(terms) units of the largest partial sum (Higham and Mary 2019).
inline double sum_tolerance(std::int64_t terms) {
  const auto n = static_cast<double>(terms);
  return n * std::sqrt(n) * epsilon_of(DType::kF32);
}

// Describes the first element whose error exceeds that of f32 additions of `terms` products of
// values below 1 and of rounding the result; empty if there is none.
inline std::string fault(const Tensor& result, const Tensor& expected, std::int64_t terms) {
  if (result.shape() != expected.shape()) return concat("the shape is ", result.shape());
  const Doubles got = result.to_vector<double>();
  const Doubles want = expected.to_vector<double>();
  const double unit = epsilon_of(result.dtype());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = sum_tolerance(terms) + unit * std::abs(want[i]);
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    if (got[i] != want[i] && !both_nan && !(std::abs(got[i] - want[i]) <= allowed)) {
      return concat("element ", i, " of ", result.shape(), " is ", got[i], ", not ", want[i]);
    }
  }
  return {};
}

// The kernel of the last call of an operation whose name begins with a prefix.
class SeeKernel final : public KernelListener {
 public:
  explicit SeeKernel(std::string op) : op_(std::move(op)) {}
  void on_run(const KernelWork& work, double) override {
    if (std::string_view(work.op).starts_with(op_)) kernel = work.kernel;
  }
  std::string kernel;

 private:
  std::string op_;
  ListenToKernels guard_{*this};
};

}  // namespace mezzo::test
