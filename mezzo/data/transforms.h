// The transforms of images between a data set and a batch. Transforms are plain values; a list of
// them, for map() in pipeline.h, is a pipeline:
//
//   {RandomCrop{.height = 32, .width = 32, .padding = 4}, RandomHorizontalFlip{},
//    Resize{.height = 224, .width = 224}, Rescale{}, Normalize{.mean = ..., .deviation = ...}}
//
// The steps up to RandomResizedCrop make images from images, in bytes, as do those of
// color_transforms.h and geometry_transforms.h. Rescale and Normalize determine the value that each
// byte has in a batch. transform.h explains their members and how to write a step of one's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"
#include "mezzo/data/transform.h"

namespace mezzo::data {

// A rectangle at a random place of the image with a border around it; MindSpore's RandomCrop.
struct RandomCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t padding = 0;  // pixels added on every side first
  std::uint8_t fill = 0;     // the value of these pixels

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Flips the image left to right with the given probability.
struct RandomHorizontalFlip {
  double probability = 0.5;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Bilinear interpolation to exactly that size; see resize.h. Without antialias it is MindSpore's
// and OpenCV's, with it torchvision's.
struct Resize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool antialias = false;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Bilinear interpolation that gives the shorter side that size and keeps the proportion, rounded
// down; torchvision's Resize(size).
struct ResizeShortSide {
  std::int64_t size = 0;
  bool antialias = true;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Crops the rectangle in the centre.
struct CenterCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// Resizes a random part of the image. Its area is a uniform share of the image's, the logarithm of
// width over height is uniform, and so is its place (Szegedy et al., "Going deeper with
// convolutions", 2015; torchvision's RandomResizedCrop). If ten rectangles in a row do not fit, it
// takes the largest central one whose proportion is allowed.
struct RandomResizedCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  double min_area = 0.08;
  double max_area = 1;
  double min_ratio = 3.0 / 4;  // width over height
  double max_ratio = 4.0 / 3;
  bool antialias = true;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// value * scale + shift.
struct Rescale {
  float scale = 1.0F / 255;
  float shift = 0;

  void check(std::int64_t channels) const;
  float value(float value, std::size_t channel) const;
};

// (value - mean) / deviation, with one of each per channel.
struct Normalize {
  std::vector<float> mean{};
  std::vector<float> deviation{};

  void check(std::int64_t channels) const;
  float value(float value, std::size_t channel) const;
};

}  // namespace mezzo::data
