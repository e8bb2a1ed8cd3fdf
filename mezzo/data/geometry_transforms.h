// Transforms that randomly flip, rotate or partly cover images, as torchvision defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// Flips the image top to bottom with the given probability.
struct RandomVerticalFlip {
  double probability = 0.5;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Rotates the image about its centre by an angle that is uniform in [-degrees, degrees]; positive
// angles turn counterclockwise. The size stays, and uncovered places get `fill`. Each pixel is the
// nearest pixel of the source or, with `bilinear`, interpolated from the four around its position,
// where pixels outside the source have the value `fill`.
struct RandomRotation {
  double degrees = 0;  // from 0 to 180
  bool bilinear = false;
  std::uint8_t fill = 0;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Covers a rectangle of the image with the given probability. Its area is a uniform share of the
// image's, the logarithm of height over width is uniform, and so is its place. If ten rectangles in
// a row do not fit, nothing is covered. torchvision applies this after the normalization, where the
// value 0 is the mean colour. Here `fill` must name that colour: {124, 116, 104} for ImageNet.
struct RandomErasing {
  double probability = 0.5;
  double min_area = 0.02;
  double max_area = 0.33;
  double min_ratio = 0.3;  // height over width
  double max_ratio = 3.3;
  std::vector<std::uint8_t> fill{0};  // one byte for all channels, or one for each

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

}  // namespace mezzo::data
