// Transforms that randomly change the colours of images, as torchvision defines them for images
// with values from 0 to 1. They compute in f32 and round once, at the end.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// Changes brightness, contrast, saturation and hue in a random order; torchvision's ColorJitter.
// Factors are uniform in [max(0, 1 - amount), 1 + amount]. The shift of the hue is uniform in
// [-hue, hue] turns of the colour circle. With amounts of 0 nothing changes, and only the order is
// drawn. A pixel x becomes, clamped to [0, 1]:
//   brightness   factor * x
//   contrast     factor * x + (1 - factor) * the mean of the grey image
//   saturation   factor * x + (1 - factor) * the grey of this pixel
//   hue          the colour with the same value and saturation (HSV) and the shifted hue
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

// Replaces all three channels by the pixel's grey, with the given probability; torchvision's
// RandomGrayscale. Takes images of 3 channels.
struct RandomGrayscale {
  double probability = 0.1;

  Shape output_shape(const Shape& input) const;
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
};

}  // namespace mezzo::data
