#include "mezzo/data/geometry_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "mezzo/core/error.h"
#include "mezzo/data/draw.h"

namespace mezzo::data {
namespace {

void copy_all(const ImageView& in, std::span<std::uint8_t> out) {
  std::uint8_t* to = out.data();
  for (std::int64_t y = 0; y < in.height; ++y) {
    to = std::copy_n(in.row(y), in.width * in.channels, to);
  }
}

// An image extended by one byte value in all directions.
struct Endless {
  const ImageView& image;
  std::uint8_t around;

  std::uint8_t at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    const bool is_inside = y >= 0 && y < image.height && x >= 0 && x < image.width;
    return is_inside ? image.row(y)[x * image.channels + channel] : around;
  }
  std::uint8_t nearest(double y, double x, std::int64_t channel) const {
    return at(std::llrint(y), std::llrint(x), channel);  // ties to even, as in torchvision
  }
  std::uint8_t between(double y, double x, std::int64_t channel) const {
    const double top = std::floor(y);
    const double left = std::floor(x);
    const auto row = static_cast<std::int64_t>(top);
    const auto column = static_cast<std::int64_t>(left);
    const auto along = [&](std::int64_t line) {
      return (1 - (x - left)) * at(line, column, channel) +
             (x - left) * at(line, column + 1, channel);
    };
    const double value = (1 - (y - top)) * along(row) + (y - top) * along(row + 1);
    return static_cast<std::uint8_t>(std::floor(value + 0.5));
  }
};

// Rotates the image by `angle` radians counterclockwise.
void rotate(const ImageView& in, double angle, const RandomRotation& how,
            std::span<std::uint8_t> out) {
  const Endless source{in, how.fill};
  const double sine = std::sin(angle);
  const double cosine = std::cos(angle);
  const double middle_y = static_cast<double>(in.height - 1) / 2;
  const double middle_x = static_cast<double>(in.width - 1) / 2;
  auto to = out.begin();
  for (std::int64_t row = 0; row < in.height; ++row) {
    for (std::int64_t column = 0; column < in.width; ++column) {
      const double y = static_cast<double>(row) - middle_y;
      const double x = static_cast<double>(column) - middle_x;
      // The source position of the pixel: rows count downwards, so this turns clockwise.
      const double from_y = x * sine + y * cosine + middle_y;
      const double from_x = x * cosine - y * sine + middle_x;
      for (std::int64_t c = 0; c < in.channels; ++c) {
        *to++ =
            how.bilinear ? source.between(from_y, from_x, c) : source.nearest(from_y, from_x, c);
      }
    }
  }
}

struct Rectangle {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t rows = 0;  // 0: none
  std::int64_t columns = 0;
};

Rectangle random_rectangle(const RandomErasing& erasing, const ImageView& in, Generator& random) {
  constexpr int kTries = 10;
  const auto area = static_cast<double>(in.height * in.width);
  for (int i = 0; i < kTries; ++i) {
    const double part = area * uniform_in(random, erasing.min_area, erasing.max_area);
    const double ratio =
        std::exp(uniform_in(random, std::log(erasing.min_ratio), std::log(erasing.max_ratio)));
    const std::int64_t rows = std::llrint(std::sqrt(part * ratio));
    const std::int64_t columns = std::llrint(std::sqrt(part / ratio));
    if (rows >= in.height || columns >= in.width) continue;
    const std::int64_t top = below(random, in.height - rows + 1);
    return {top, below(random, in.width - columns + 1), rows, columns};
  }
  return {};
}

}  // namespace

Shape RandomVerticalFlip::output_shape(const Shape& input) const {
  check_probability("random_vertical_flip", probability);
  return input;
}

void RandomVerticalFlip::apply(const ImageView& in, Generator& random,
                               std::span<std::uint8_t> out) const {
  const bool flips = happens(random, probability);
  std::uint8_t* to = out.data();
  for (std::int64_t y = 0; y < in.height; ++y) {
    to = std::copy_n(in.row(flips ? in.height - 1 - y : y), in.width * in.channels, to);
  }
}

Shape RandomRotation::output_shape(const Shape& input) const {
  check_arg(degrees >= 0 && degrees <= 180, "random_rotation",
            "the degrees must be from 0 to 180: ", degrees);
  return input;
}

void RandomRotation::apply(const ImageView& in, Generator& random,
                           std::span<std::uint8_t> out) const {
  const double angle = uniform_in(random, -degrees, degrees) * std::numbers::pi / 180;
  rotate(in, angle, *this, out);
}

Shape RandomErasing::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "random_erasing";
  check_probability(kOp, probability);
  check_arg(min_area > 0 && min_area <= max_area && max_area <= 1, kOp,
            "the areas must be in (0, 1], the lower one first: ", min_area, " and ", max_area);
  check_arg(min_ratio > 0 && min_ratio <= max_ratio && std::isfinite(max_ratio), kOp,
            "the ratios must be positive, the lower one first: ", min_ratio, " and ", max_ratio);
  check_arg(fill.size() == 1 || std::ssize(fill) == input[0], kOp,
            "fill has one byte for all channels or one for each of ", input[0], ": got ",
            fill.size());
  return input;
}

void RandomErasing::apply(const ImageView& in, Generator& random,
                          std::span<std::uint8_t> out) const {
  copy_all(in, out);
  if (!happens(random, probability)) return;
  const Rectangle covered = random_rectangle(*this, in, random);
  for (std::int64_t y = covered.top; y < covered.top + covered.rows; ++y) {
    std::uint8_t* to = out.data() + (y * in.width + covered.left) * in.channels;
    for (std::int64_t i = 0; i < covered.columns * in.channels; ++i) {
      const auto channel = static_cast<std::size_t>(i % in.channels);
      to[i] = fill[fill.size() == 1 ? 0 : channel];
    }
  }
}

}  // namespace mezzo::data
