// Transforms that change the colours of images at random, as torchvision defines them on images of
// numbers from 0 to 1. They compute in f32 and round once, at the end.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// Brightness, contrast, saturation and hue changed in a random order; torchvision's ColorJitter.
// Factors are uniform in [max(0, 1 - amount), 1 + amount], and the shift of the hue is uniform in
// [-hue, hue] turns of the colour circle. With 0 nothing is changed, and nothing drawn but the
// order. A pixel x becomes, cut off at 0 and 1:
//   brightness   factor * x
//   contrast     factor * x + (1 - factor) * the mean of the grey image
//   saturation   factor * x + (1 - factor) * the grey of this pixel
//   hue          the colour of the same value and saturation (HSV), so far around the circle
// Grey is 0.2989 red + 0.587 green + 0.114 blue. Takes images of 1 or 3 channels; grey ones have no
// saturation and no hue.
struct ColorJitter {
  double brightness = 0;  // each at least 0
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  // from 0 to 0.5

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

// The grey of each pixel in all three channels, or not; torchvision's RandomGrayscale. Takes images
// of 3 channels.
struct RandomGrayscale {
  double probability = 0.1;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

}  // namespace mezzo::data
