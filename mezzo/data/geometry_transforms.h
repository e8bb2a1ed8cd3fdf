// Transforms that turn images or cover parts of them at random, as torchvision defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// Top and bottom exchanged, or not.
struct RandomVerticalFlip {
  double probability = 0.5;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// The image turned about its middle by an angle that is uniform in [-degrees, degrees], positive
// ones against the clock; its size stays, and `fill` is where there was no image. Each pixel is the
// nearest one of the source, or with `bilinear` the mean of the four around its place, beyond the
// edge of `fill`.
struct RandomRotation {
  double degrees = 0;  // from 0 to 180
  bool bilinear = false;
  std::uint8_t fill = 0;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// A rectangle of the image covered, or not: its area a uniform share of the image's, the logarithm
// of height over width uniform, its place uniform. After ten rectangles that do not fit nothing is
// covered. In torchvision it comes after the normalization, where its value 0 is the mean colour;
// here that colour is to be named: of ImageNet {124, 116, 104}.
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
