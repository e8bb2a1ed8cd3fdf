// Casts of tensors of eight bits, against the conversion of single elements.
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/convert_element.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

// Numbers of both signs around every power of two that matters, and what is none. Their count is
// 4 * 7 * 3 * 5, and no vector's length divides a row.
Tensor numbers_to_cast() {
  const Shape shape{4, 7, 3, 5};
  const Tensor x = empty(shape, DType::kF64);
  auto* out = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double fraction = 1 + static_cast<double>(i * 37 % 64) / 64;
    out[i] = std::ldexp(i % 2 == 0 ? fraction : -fraction, static_cast<int>(i % 41) - 22);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {0, -0.0, 464, 465, 61439, 61440, 1e30, -1e30, kInfinity, -kInfinity};
  std::ranges::copy(special, out);
  out[std::size(special)] = std::numeric_limits<double>::quiet_NaN();
  return x;
}

Tensor converted(const Tensor& x, DType dtype) {
  const Tensor y = empty(x.shape(), dtype);
  visit_dtype(x.dtype(), [&]<class From>() {
    visit_dtype(dtype, [&]<class To>() {
      const From* from = x.data<From>();
      To* to = y.mutable_data<To>();
      for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = convert_element<To>(from[i]);
    });
  });
  return y;
}

// Every NaN counts as the same: GPUs do not keep the payloads of those of 16 bits.
bool has_same_elements(const Tensor& a, const Tensor& b) {
  const Tensor mine = to_format(a, Format::kContiguous);
  const auto numbers_a = mine.to_vector<double>();
  const auto numbers_b = b.to_vector<double>();
  for (std::size_t i = 0; i < numbers_a.size(); ++i) {
    const bool are_nan = std::isnan(numbers_a[i]) && std::isnan(numbers_b[i]);
    const bool is_same =
        numbers_a[i] == numbers_b[i] && std::signbit(numbers_a[i]) == std::signbit(numbers_b[i]);
    if (!are_nan && !is_same) return false;
  }
  return true;
}

// `x`, row-major, in other layouts.
Tensor laid_out(const Tensor& x, Layout layout) {
  if (layout == Layout::kChannelsLast) {
    const Tensor result = empty(x.shape(), x.dtype(), Format::kChannelsLast);
    copy_elements(x, result);
    return result;
  }
  if (layout == Layout::kDense) return x;
  Shape larger = x.shape();
  larger.back() = 2 * larger.back() + 1;
  const Tensor block = zeros(larger, x.dtype());
  Strides strides = block.strides();
  strides[x.rank() - 1] = 2;
  const Tensor result = alias(block, x.shape(), strides, 1);
  copy_elements(x, result);
  return result;
}

void expect_cast(const Tensor& x, DType dtype, Device device) {
  const Tensor want = converted(x, dtype);
  for (const Layout layout : kAllLayouts) {
    const Tensor here = on_device(laid_out(x, layout), device);
    const std::string name = concat(x.dtype(), " to ", dtype, " ", name_of(layout));
    EXPECT_TRUE(has_same_elements(cast(here, dtype).to(kCpuDevice), want)) << name;
    // Where cast() keeps the layout, a copy into another one transposes.
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      const Tensor other = empty(x.shape(), dtype, format, device);
      convert_into(here, other);
      EXPECT_TRUE(has_same_elements(other.to(kCpuDevice), want)) << concat(name, " into ", format);
    }
    const Tensor turned = permute(here, {3, 2, 1, 0});
    EXPECT_TRUE(has_same_elements(permute(cast(turned, dtype).to(kCpuDevice), {3, 2, 1, 0}), want))
        << name << " turned";
  }
}

}  // namespace

void expect_eight_bit_casts(Device device) {
  const Tensor numbers = numbers_to_cast();
  for (const DType narrow : {DType::kE4m3, DType::kE5m2}) {
    for (const DType other : kAllDTypes) {
      expect_cast(converted(numbers, other), narrow, device);
      expect_cast(converted(numbers, narrow), other, device);
    }
  }
}

}  // namespace mezzo::sweep
