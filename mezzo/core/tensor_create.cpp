// Creating, filling and plainly copying tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

constexpr std::int64_t kFillGrain = 1 << 15;

// Towards zero; what does not fit becomes the nearest number that does, and NaN 0, where the
// language leaves it undefined.
template <class Integer>
Integer to_integer(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  // The largest i64 is no double: the next one is its successor.
  if (value >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return static_cast<Integer>(value);
}

template <class T>
T convert(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return T(rounded_to_odd(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return to_integer<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// A whole number that a double holds exactly and that rounds to 16 bits as `value` does: of more
// than 53 bits the last 11 are dropped, and what was lost shows in the last that is left (rounding
// to odd). Rounding to a double first could make a tie of what is none.
double exact_for_half(std::int64_t value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value >= -kExact && value <= kExact) return static_cast<double>(value);
  constexpr std::int64_t kDropped = (1 << 11) - 1;
  const bool inexact = (value & kDropped) != 0;
  return static_cast<double>((value & ~kDropped) | (inexact ? kDropped + 1 : 0));
}

template <class To, class From>
To convert_element(From value) {
  constexpr bool kToHalf = std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (kToHalf && std::is_integral_v<From>) {
    return To(rounded_to_odd(exact_for_half(value)));
  } else if constexpr (kToHalf && std::is_same_v<From, float>) {
    return To(value);
  } else if constexpr (std::is_floating_point_v<From>) {
    return convert<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Calls body(source_offset, destination_offset, count, source_step, destination_step) for every
// innermost row.
template <class Body>
void for_each_row(const Shape& shape, const Strides& a, const Strides& b, Body&& body) {
  if (shape.numel() == 0) return;
  if (shape.rank() == 0) {
    body(0, 0, 1, 1, 1);
    return;
  }
  const std::size_t last = shape.rank() - 1;
  Shape index = Shape::filled(shape.rank(), 0);
  std::int64_t offset_a = 0;
  std::int64_t offset_b = 0;
  for (;;) {
    body(offset_a, offset_b, shape[last], a[last], b[last]);
    std::size_t axis = last;
    for (;;) {
      if (axis == 0) return;
      --axis;
      offset_a += a[axis];
      offset_b += b[axis];
      if (++index[axis] < shape[axis]) break;
      offset_a -= a[axis] * shape[axis];
      offset_b -= b[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

namespace {

std::size_t checked_bytes(const Shape& shape, DType dtype) {
  for (const std::int64_t size : shape) {
    check_arg(size >= 0, "empty", "a size is negative: ", shape);
  }
  check_arg(is_countable(shape, size_of(dtype)), "empty", dtype, shape,
            " has more bytes than can be counted. Check the sizes");
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

}  // namespace

Tensor empty(const Shape& shape, DType dtype, Format format, Device device) {
  const std::size_t bytes =
      checked_bytes(shape, dtype);  // before strides, which it says can be had
  return Tensor(make_ref<TensorImpl>(make_ref<Storage>(bytes, device), 0, shape,
                                     strides_for(shape, format), dtype));
}

Tensor empty_pinned(const Shape& shape, DType dtype, Format format) {
  const std::size_t bytes = checked_bytes(shape, dtype);
  return Tensor(make_ref<TensorImpl>(make_ref<Storage>(bytes, Pinned{}), 0, shape,
                                     strides_for(shape, format), dtype));
}

Tensor zeros(const Shape& shape, DType dtype, Format format, Device device) {
  const Tensor result = empty(shape, dtype, format, device);
  if (result.bytes() == 0) return result;
  if (device.type != DeviceType::kCpu) {
    fill(result, 0);
  } else {
    std::memset(result.mutable_raw_data(), 0, result.bytes());
  }
  return result;
}

Tensor ones(const Shape& shape, DType dtype, Device device) {
  return full(shape, 1, dtype, device);
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  const Tensor result = empty(shape, dtype, Format::kContiguous, device);
  fill(result, value);
  return result;
}

Tensor arange(std::int64_t n, DType dtype) {
  const Tensor result = empty({n}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    T* out = result.mutable_data<T>();
    for (std::int64_t i = 0; i < n; ++i) out[i] = convert<T>(static_cast<double>(i));
  });
  return result;
}

template <class T>
Tensor from_values(std::span<const T> values, const Shape& shape) {
  checked_bytes(shape, kDTypeOf<T>);  // so that there is a number of elements to compare with
  check_arg(static_cast<std::int64_t>(values.size()) == shape.numel(), "from_values", values.size(),
            " values cannot fill the shape ", shape);
  const Tensor result = empty(shape, kDTypeOf<T>);
  if (!values.empty()) std::memcpy(result.mutable_raw_data(), values.data(), result.bytes());
  return result;
}

template Tensor from_values(std::span<const float>, const Shape&);
template Tensor from_values(std::span<const double>, const Shape&);
template Tensor from_values(std::span<const BFloat16>, const Shape&);
template Tensor from_values(std::span<const Float16>, const Shape&);
template Tensor from_values(std::span<const std::int64_t>, const Shape&);
template Tensor from_values(std::span<const std::int32_t>, const Shape&);
template Tensor from_values(std::span<const std::uint8_t>, const Shape&);

void fill(const Tensor& tensor, double value) {
  if (tensor.device().type != DeviceType::kCpu) {
    if (tensor.numel() > 0) backend_of(tensor.device()).fill(tensor, value);
    return tensor.bump_version();
  }
  visit_dtype(tensor.dtype(), [&]<class T>() {
    const T element = convert<T>(value);
    T* out = tensor.mutable_data<T>();
    if (tensor.is_dense() || tensor.is_dense(Format::kChannelsLast)) {
      parallel_for(tensor.numel(), kFillGrain, [&](std::int64_t begin, std::int64_t end) {
        std::fill(out + begin, out + end, element);
      });
      return;
    }
    for_each_row(
        tensor.shape(), tensor.strides(), tensor.strides(),
        [&](std::int64_t start, std::int64_t, std::int64_t count, std::int64_t step, std::int64_t) {
          for (std::int64_t i = 0; i < count; ++i) out[start + i * step] = element;
        });
  });
}

namespace {

// `in` and `out` are the elements of two tensors of one shape.
template <class From, class To>
void convert_elements(const From* in, To* out, const Tensor& source, const Tensor& destination) {
  for_each_row(source.shape(), source.strides(), destination.strides(),
               [&](std::int64_t from, std::int64_t to, std::int64_t count, std::int64_t step_in,
                   std::int64_t step_out) {
                 for (std::int64_t i = 0; i < count; ++i) {
                   out[to + i * step_out] = convert_element<To>(in[from + i * step_in]);
                 }
               });
}

// True if a copy of the bytes, from the host or to it, is a copy of the elements.
bool lie_alike(const Tensor& a, const Tensor& b) {
  const bool is_one_the_hosts =
      a.device().type == DeviceType::kCpu || b.device().type == DeviceType::kCpu;
  const auto are_dense = [&](Format format) { return a.is_dense(format) && b.is_dense(format); };
  return is_one_the_hosts && a.dtype() == b.dtype() &&
         (are_dense(Format::kContiguous) ||
          (a.shape().rank() == 4 && are_dense(Format::kChannelsLast)));
}

}  // namespace

void copy_elements(const Tensor& source, const Tensor& destination) {
  check_arg(source.shape() == destination.shape(), "copy", "shapes differ: ", source.shape(),
            " and ", destination.shape());
  const Device device = destination.device();
  if (source.device() != device) {
    if (!lie_alike(source, destination)) return copy_elements(source.to(device), destination);
    copy_bytes(destination.address(), device, source.address(), source.device(), source.bytes());
    return destination.bump_version();
  }
  if (device.type != DeviceType::kCpu) {
    if (source.numel() > 0) backend_of(device).copy_elements(source, destination);
    return destination.bump_version();
  }
  visit_dtype(source.dtype(), [&]<class From>() {
    visit_dtype(destination.dtype(), [&]<class To>() {
      convert_elements(source.data<From>(), destination.mutable_data<To>(), source, destination);
    });
  });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> result(static_cast<std::size_t>(numel()));
  const Tensor row_major = empty(shape(), kDTypeOf<T>);
  copy_elements(*this, row_major);
  if (!result.empty()) std::memcpy(result.data(), row_major.raw_data(), row_major.bytes());
  return result;
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<Float16> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

}  // namespace mezzo
