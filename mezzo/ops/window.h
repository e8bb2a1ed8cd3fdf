// Windows that slide over height and width: the geometry of convolutions and pooling.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/core/shape.h"

namespace mezzo {

// The largest size, stride, dilation and padding along one axis, which is what the kernels'
// libraries can count. Products of two of them do not overflow.
inline constexpr std::int64_t kMostPixels = std::numeric_limits<std::int32_t>::max();

// A value for height and one for width; a single number stands for both.
struct Size2d {
  std::int64_t h = 1;
  std::int64_t w = 1;

  constexpr Size2d() = default;
  constexpr Size2d(std::int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Size2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  bool operator==(const Size2d&) const = default;
};

// Rows and columns added at each side of an image.
struct Sides {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;

  bool operator==(const Sides&) const = default;
};

void append_text(std::string& out, Size2d size);
void append_text(std::string& out, const Sides& sides);
bool parse_text(std::string_view text, Size2d& size);
bool parse_text(std::string_view text, Sides& sides);

enum class Padding : std::uint8_t {
  kValid,  // none
  kSame,   // output = ceil(input / stride); the odd pixel goes to the bottom and the right
};

// Padding as the user gives it: by name, or as numbers (one for all sides, one for top and bottom
// and one for left and right, or {top, bottom, left, right}).
class Padding2d {
 public:
  Padding2d() = default;
  Padding2d(Padding name) : same_(name == Padding::kSame) {}  // NOLINT(google-explicit-constructor)
  Padding2d(std::int64_t all)                                 // NOLINT(google-explicit-constructor)
      : Padding2d(all, all) {}
  Padding2d(int all) : Padding2d(all, all) {}  // NOLINT(google-explicit-constructor)
  Padding2d(std::int64_t h, std::int64_t w) : Padding2d(h, h, w, w) {}
  Padding2d(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right)
      : sides_{top, bottom, left, right} {}

  // The four sides for an image of size `in` and a window that spans `span` pixels.
  Sides resolve(Size2d in, Size2d span, Size2d stride) const;
  // Whether it was given as kSame.
  bool is_same() const { return same_; }

 private:
  Sides sides_;
  bool same_ = false;
};

// The geometry of a window. Trivially copyable, because it is part of attributes.
struct Window2d {
  Size2d kernel;
  Size2d stride;
  Size2d dilation;
  Sides padding;

  // Throws ArgumentError naming `op` if a value is invalid, or so large that products of two could
  // overflow.
  void check_numbers(std::string_view op) const;
  // The pixels from a window's first to its last, both included; for checked values only.
  Size2d span() const { return {(kernel.h - 1) * dilation.h + 1, (kernel.w - 1) * dilation.w + 1}; }
  // The number of windows that fit into an image. Throws ArgumentError naming `op` if none does or
  // a value is invalid.
  Size2d output_size(Size2d in, std::string_view op) const;

  bool operator==(const Window2d&) const = default;
};

}  // namespace mezzo
