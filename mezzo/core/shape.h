// Sizes and strides of tensors: up to kMaxRank numbers, held in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo {

inline constexpr std::size_t kMaxRank = 6;

// The sizes of a tensor's dimensions, outermost first. Also used for strides and for lists of axes.
class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes) : rank_(sizes.size()) {
    check_arg(sizes.size() <= kMaxRank, "shape", "too many dimensions: ", sizes.size(),
              ", at most ", kMaxRank, " are supported. Make one of several");
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  }
  static Shape filled(std::size_t rank, std::int64_t value) {
    Shape shape;
    for (std::size_t i = 0; i < rank; ++i) shape.push_back(value);
    return shape;
  }

  std::size_t rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](std::size_t i) const { return sizes_[i]; }
  std::int64_t& operator[](std::size_t i) { return sizes_[i]; }
  std::int64_t back() const { return sizes_[rank_ - 1]; }
  std::int64_t& back() { return sizes_[rank_ - 1]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  void push_back(std::int64_t size) {
    check_arg(rank_ < kMaxRank, "shape", "too many dimensions: at most ", kMaxRank,
              " are supported. Make one of several");
    sizes_[rank_++] = size;
  }
  void erase(std::size_t axis) {
    std::copy(sizes_.begin() + axis + 1, sizes_.begin() + rank_, sizes_.begin() + axis);
    sizes_[--rank_] = 0;
  }

  // The product of the sizes; 1 for rank 0.
  std::int64_t numel() const {
    std::int64_t count = 1;
    for (const std::int64_t size : *this) count *= size;
    return count;
  }

  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::size_t rank_ = 0;
};

using Strides = Shape;

// True if 63 bits hold the number of bytes of a tensor of that shape, and so its number of elements
// and every stride. A size of 0 does not excuse the others, because strides are their products.
bool is_countable(const Shape& shape, std::size_t element_bytes);

// Appends the sizes, as in `[2, 3, 4]`.
inline void append_text(std::string& out, const Shape& shape) {
  out += '[';
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) out += ", ";
    append_text(out, shape[i]);
  }
  out += ']';
}

// `axis` counted from the end if negative; throws ArgumentError naming `op` if out of range.
inline std::size_t normalize_axis(std::int64_t axis, std::size_t rank, std::string_view op) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  check_arg(axis >= -signed_rank && axis < signed_rank, op, "axis out of range: ", axis,
            " for a tensor of rank ", rank, ". Axes count from 0, or from -1, the last one, down");
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

// The order of a dense tensor's elements in memory.
enum class Format : std::uint8_t {
  kContiguous,    // row-major: the last dimension is innermost
  kChannelsLast,  // rank 4, logically [n, c, h, w], in memory n, h, w, c
};

inline void append_text(std::string& out, Format format) {
  out += format == Format::kContiguous ? "contiguous" : "channels_last";
}

// The strides of a dense tensor of that shape and format.
Strides strides_for(const Shape& shape, Format format);

// The range of memory that a tensor's elements lie in, as element positions from `begin` up to but
// excluding `end`. Both are equal if there are no elements. If strides exceed what 63 bits can
// count, the range is all positions. `offset` is the position of the first element.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Extent extent_of(const Shape& shape, const Strides& strides, std::int64_t offset);

// The shape that both broadcast to (numpy's rule); throws ArgumentError naming `op`.
Shape broadcast(const Shape& a, const Shape& b, std::string_view op);

}  // namespace mezzo
