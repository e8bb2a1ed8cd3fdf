// Creating, filling and plainly copying tensors.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

constexpr std::int64_t kFillGrain = 1 << 15;

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

std::size_t checked_bytes(const Shape& shape, DType dtype) {
  for (const std::int64_t size : shape) {
    check_arg(size >= 0, "empty", "a size is negative: ", shape, ". Use sizes of 0 or more");
  }
  check_arg(is_countable(shape, size_of(dtype)), "empty", dtype, shape,
            " has more bytes than can be counted. Check the sizes");
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

}  // namespace

Tensor empty(const Shape& shape, DType dtype, Format format, Device device) {
  // also checks that strides can be computed
  const std::size_t bytes = checked_bytes(shape, dtype);
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
  if (!device.is_cpu()) {
    fill(result, 0);
  } else {
    std::memset(result.mutable_raw_data(), 0, result.bytes());
  }
  return result;
}

Tensor ones(const Shape& shape, DType dtype, Format format, Device device) {
  return full(shape, 1, dtype, format, device);
}

Tensor full(const Shape& shape, double value, DType dtype, Format format, Device device) {
  const Tensor result = empty(shape, dtype, format, device);
  fill(result, value);
  return result;
}

Tensor arange(std::int64_t n, DType dtype) {
  const Tensor result = empty({n}, dtype);
  visit_dtype(dtype, [&]<class T>() {
    T* out = result.mutable_data<T>();
    for (std::int64_t i = 0; i < n; ++i) out[i] = convert_element<T>(static_cast<double>(i));
  });
  return result;
}

template <class T>
Tensor from_values(std::span<const T> values, const Shape& shape) {
  checked_bytes(shape, kDTypeOf<T>);  // checks that the number of elements can be counted
  check_arg(static_cast<std::int64_t>(values.size()) == shape.numel(), "from_values", values.size(),
            " values cannot fill the shape ", shape, ", which has ", shape.numel(),
            " elements. Give as many");
  const Tensor result = empty(shape, kDTypeOf<T>);
  if (!values.empty()) std::memcpy(result.mutable_raw_data(), values.data(), result.bytes());
  return result;
}

template Tensor from_values(std::span<const float>, const Shape&);
template Tensor from_values(std::span<const double>, const Shape&);
template Tensor from_values(std::span<const BFloat16>, const Shape&);
template Tensor from_values(std::span<const Float16>, const Shape&);
template Tensor from_values(std::span<const Float8E4M3>, const Shape&);
template Tensor from_values(std::span<const Float8E5M2>, const Shape&);
template Tensor from_values(std::span<const std::int64_t>, const Shape&);
template Tensor from_values(std::span<const std::int32_t>, const Shape&);
template Tensor from_values(std::span<const std::uint8_t>, const Shape&);
template Tensor from_values(std::span<const bool>, const Shape&);

namespace {

// Whether a finite number becomes infinite when it is rounded to that dtype.
bool becomes_infinite(double value, DType dtype) {
  if (!is_floating(dtype) || !std::isfinite(value)) return false;
  bool is_infinite = false;
  visit_dtype(dtype, [&]<class T>() {
    is_infinite = std::isinf(convert_element<double>(convert_element<T>(value)));
  });
  return is_infinite;
}

}  // namespace

void fill(const Tensor& tensor, double value) {
  const DType dtype = tensor.dtype();
  check_arg(!becomes_infinite(value, dtype), "fill", value, " does not fit ", dtype,
            ", whose largest value is ", max_of(dtype), ". Give a smaller one, or an infinity");
  if (!tensor.device().is_cpu()) {
    tensor.storage()->fill_held_copies();
    if (tensor.numel() > 0) backend_of(tensor.device()).fill(tensor, value);
    return tensor.bump_version();
  }
  visit_dtype(tensor.dtype(), [&]<class T>() {
    const T element = convert_element<T>(value);
    T* out = tensor.mutable_data<T>();
    if (tensor.is_one_block()) {
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

// True if copying the bytes, from or to the host, copies the elements.
bool lie_alike(const Tensor& a, const Tensor& b) {
  const bool is_one_the_hosts = a.device().is_cpu() || b.device().is_cpu();
  const auto are_dense = [&](Format format) { return a.is_dense(format) && b.is_dense(format); };
  return is_one_the_hosts && a.dtype() == b.dtype() &&
         (are_dense(Format::kContiguous) || are_dense(Format::kChannelsLast));
}

}  // namespace

void copy_elements(const Tensor& source, const Tensor& destination) {
  check_arg(source.shape() == destination.shape(), "copy", "shapes differ: ", source.shape(),
            " and ", destination.shape(), ". Use reshape() or expand() first");
  const Device device = destination.device();
  destination.storage()->fill_held_copies();
  if (source.device() != device) {
    if (!lie_alike(source, destination)) return copy_elements(source.to(device), destination);
    copy_bytes(destination.address(), device, source.address(), source.device(), source.bytes());
    return destination.bump_version();
  }
  if (may_overlap(source, destination)) return copy_elements(copy_of(source), destination);
  if (!device.is_cpu()) {
    if (source.numel() > 0) backend_of(device).copy_elements(source, destination);
    return destination.bump_version();
  }
  visit_dtype(source.dtype(), [&]<class From>() {
    visit_dtype(destination.dtype(), [&]<class To>() {
      convert_elements(source.data<From>(), destination.mutable_data<To>(), source, destination);
    });
  });
}

Tensor copy_of(const Tensor& tensor) {
  const Tensor copy = empty(tensor.shape(), tensor.dtype(), tensor.format(), tensor.device());
  copy_elements(tensor, copy);
  return copy;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor row_major = empty(shape(), kDTypeOf<T>);
  copy_elements(*this, row_major);
  const T* first = row_major.data<T>();
  return std::vector<T>(first, first + numel());
}

template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<Float16> Tensor::to_vector() const;
template std::vector<Float8E4M3> Tensor::to_vector() const;
template std::vector<Float8E5M2> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

}  // namespace mezzo
