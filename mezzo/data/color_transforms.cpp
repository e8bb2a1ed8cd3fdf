#include "mezzo/data/color_transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/draw.h"

namespace mezzo::data {
namespace {

// An image as values from 0 to 1, channels innermost. Bytes have 8 bits, and four steps in f32 stay
// within a thousandth of a byte; bytes in between would be rounded four times.
using Colours = std::vector<float>;
constexpr float kMostByte = 255;

Colours colours_of(const ImageView& in) {
  Colours colours;
  const std::int64_t row_bytes = in.width * in.channels;
  colours.reserve(static_cast<std::size_t>(in.height * row_bytes));
  for (std::int64_t y = 0; y < in.height; ++y) {
    std::transform(in.row(y), in.row(y) + row_bytes, std::back_inserter(colours),
                   [](std::uint8_t byte) { return static_cast<float>(byte) / kMostByte; });
  }
  return colours;
}

// The byte of a value from 0 to 1.
std::uint8_t byte_of(float number) {
  return static_cast<std::uint8_t>(std::floor(number * kMostByte + 0.5F));
}

float grey_of(const float* pixel) {
  return 0.2989F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2];
}

float blend(float a, float b, float factor) {
  return std::clamp(factor * a + (1 - factor) * b, 0.0F, 1.0F);
}

void change_brightness(Colours& colours, float factor) {
  for (float& colour : colours) colour = blend(colour, 0, factor);
}

void change_contrast(Colours& colours, std::int64_t channels, float factor) {
  const auto step = static_cast<std::size_t>(channels);
  // In f64: a sum of 50,000 pixels in f32 would lose its last bits, and more with larger images.
  double sum = 0;
  for (std::size_t i = 0; i < colours.size(); i += step) {
    sum += static_cast<double>(channels == 1 ? colours[i] : grey_of(&colours[i]));
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(colours.size() / step));
  for (float& colour : colours) colour = blend(colour, mean, factor);
}

void change_saturation(Colours& colours, float factor) {
  for (std::size_t i = 0; i < colours.size(); i += 3) {
    const float grey = grey_of(&colours[i]);
    for (std::size_t c = 0; c < 3; ++c) colours[i + c] = blend(colours[i + c], grey, factor);
  }
}

struct Hsv {
  float hue = 0;  // in turns, from red through green and blue
  float saturation = 0;
  float value = 0;
};

Hsv to_hsv(const float* pixel) {
  const float red = pixel[0];
  const float green = pixel[1];
  const float blue = pixel[2];
  const float most = std::max({red, green, blue});
  const float range = most - std::min({red, green, blue});
  if (range == 0) return {.value = most};
  float sixths = 0;  // of the circle
  if (most == red) {
    sixths = (green - blue) / range;
  } else if (most == green) {
    sixths = 2 + (blue - red) / range;
  } else {
    sixths = 4 + (red - green) / range;
  }
  return {.hue = sixths / 6, .saturation = range / most, .value = most};
}

void from_hsv(const Hsv& colour, float* pixel) {
  const float sixths = (colour.hue - std::floor(colour.hue)) * 6;
  // The distance of each channel below the value: 0 for a third of the circle around its colour,
  // the saturation for the opposite third, and linear in between.
  const auto channel = [&](float centre) {
    float away = std::abs(sixths - centre);
    away = std::min(away, 6 - away);
    return colour.value * (1 - colour.saturation * std::clamp(away - 1, 0.0F, 1.0F));
  };
  pixel[0] = channel(0);
  pixel[1] = channel(2);
  pixel[2] = channel(4);
}

void turn_hue(Colours& colours, float shift) {
  for (std::size_t i = 0; i < colours.size(); i += 3) {
    Hsv colour = to_hsv(&colours[i]);
    colour.hue += shift;
    from_hsv(colour, &colours[i]);
  }
}

enum class Change : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };
using Order = std::array<Change, 4>;

// Every order is equally likely.
Order random_order(Generator& random) {
  Order order{Change::kBrightness, Change::kContrast, Change::kSaturation, Change::kHue};
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

float random_factor(Generator& random, double amount) {
  return static_cast<float>(uniform_in(random, std::max(0.0, 1 - amount), 1 + amount));
}

void change(Change what, const ColorJitter& jitter, std::int64_t channels, Generator& random,
            Colours& colours) {
  switch (what) {
    case Change::kBrightness:
      if (jitter.brightness > 0) {
        change_brightness(colours, random_factor(random, jitter.brightness));
      }
      return;
    case Change::kContrast:
      if (jitter.contrast > 0) {
        change_contrast(colours, channels, random_factor(random, jitter.contrast));
      }
      return;
    case Change::kSaturation:
      if (jitter.saturation > 0 && channels == 3) {
        change_saturation(colours, random_factor(random, jitter.saturation));
      }
      return;
    case Change::kHue:
      if (jitter.hue > 0 && channels == 3) {
        turn_hue(colours, static_cast<float>(uniform_in(random, -jitter.hue, jitter.hue)));
      }
      return;
  }
}

}  // namespace

Shape ColorJitter::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "color_jitter";
  for (const double amount : {brightness, contrast, saturation}) {
    check_arg(amount >= 0 && std::isfinite(amount), kOp,
              "brightness, contrast and saturation must be at least 0 and finite: ", amount);
  }
  check_arg(hue >= 0 && hue <= 0.5, kOp, "the hue must be from 0 to 0.5: ", hue);
  check_arg(input[0] == 1 || input[0] == 3, kOp,
            "an image has 1 channel, grey, or 3, colour: ", input[0], ". Leave it out");
  return input;
}

void ColorJitter::apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const {
  Colours colours = colours_of(in);
  for (const Change what : random_order(random)) {
    change(what, *this, in.channels, random, colours);
  }
  std::ranges::transform(colours, out.begin(), byte_of);
}

Shape RandomGrayscale::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "random_grayscale";
  check_probability(kOp, probability);
  check_arg(input[0] == 3, kOp, "needs images in colour, of 3 channels: ", input[0],
            ". Leave it out");
  return input;
}

void RandomGrayscale::apply(const ImageView& in, Generator& random,
                            std::span<std::uint8_t> out) const {
  Colours colours = colours_of(in);
  const bool becomes_grey = happens(random, probability);
  for (std::size_t i = 0; i < colours.size(); i += 3) {
    const float grey = grey_of(&colours[i]);
    for (std::size_t c = 0; c < 3; ++c) {
      // The weights sum to 0.9999, so no grey is above 1.
      out[i + c] = byte_of(becomes_grey ? grey : colours[i + c]);
    }
  }
}

}  // namespace mezzo::data
