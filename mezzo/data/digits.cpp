#include "mezzo/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "mezzo/core/error.h"
#include "mezzo/data/generated.h"
#include "mezzo/data/glyphs.h"

namespace mezzo::data {
namespace {

constexpr std::uint64_t kDigitsSeed = 0x6d657a7a6f2d3031;  // changing it changes the set
constexpr std::int64_t kDigitClasses = 10;
constexpr auto kDigitSide = static_cast<int>(kDigitsSide);
constexpr std::size_t kDigitPixels = std::size_t{kDigitSide} * kDigitSide;
constexpr float kFar = 1e6F;

// The squared distance of each pixel's centre from the nearest line; exact near lines.
class Distances {
 public:
  Distances() { squared_.fill(kFar); }

  // Adds a line from a to b, in pixels; distances are exact up to `reach` pixels.
  void add_line(Point a, Point b, float reach) {
    const float dx = b.x - a.x;
    const float dy = b.y - a.y;
    const float length_squared = std::max(dx * dx + dy * dy, 1e-6F);
    const auto [left, right] = pixel_range(a.x, b.x, reach);
    const auto [top, bottom] = pixel_range(a.y, b.y, reach);
    for (int y = top; y <= bottom; ++y) {
      for (int x = left; x <= right; ++x) {
        const float px = static_cast<float>(x) + 0.5F - a.x;
        const float py = static_cast<float>(y) + 0.5F - a.y;
        const float along = std::clamp((px * dx + py * dy) / length_squared, 0.0F, 1.0F);
        const float ex = px - along * dx;
        const float ey = py - along * dy;
        float& nearest =
            squared_[static_cast<std::size_t>(y) * kDigitSide + static_cast<std::size_t>(x)];
        nearest = std::min(nearest, ex * ex + ey * ey);
      }
    }
  }

  float at(std::size_t pixel) const { return std::sqrt(squared_[pixel]); }

 private:
  static std::pair<int, int> pixel_range(float a, float b, float reach) {
    return {std::max(static_cast<int>(std::floor(std::min(a, b) - reach)), 0),
            std::min(static_cast<int>(std::ceil(std::max(a, b) + reach)), kDigitSide - 1)};
  }

  std::array<float, kDigitPixels> squared_;
};

// One writer's hand: a random affine map from the glyph's box to pixels, and a wave that bends the
// strokes.
class Hand {
 public:
  explicit Hand(Generator& random) {
    constexpr float kPixelsPerUnit = 10;  // a digit is about 18 pixels high, as in MNIST
    const float angle = draw(random, -0.36F, 0.36F);
    const float shear = draw(random, -0.35F, 0.35F);
    const float scale_x = kPixelsPerUnit * draw(random, 0.7F, 1.2F);
    const float scale_y = kPixelsPerUnit * draw(random, 0.75F, 1.1F);
    xx_ = std::cos(angle) * scale_x;
    xy_ = (std::cos(angle) * shear - std::sin(angle)) * scale_y;
    yx_ = std::sin(angle) * scale_x;
    yy_ = (std::sin(angle) * shear + std::cos(angle)) * scale_y;
    shift_ = {kDigitSide / 2.0F + draw(random, -3, 3), kDigitSide / 2.0F + draw(random, -3, 3)};
    bend_ = {draw(random, -0.12F, 0.12F), draw(random, -0.12F, 0.12F)};
    phase_ = {draw(random, 0, 2 * std::numbers::pi_v<float>),
              draw(random, 0, 2 * std::numbers::pi_v<float>)};
  }

  Point to_pixels(Point p) const {
    constexpr float kWaves = 3;  // radians per unit: half a wave over the height of a digit
    const float x = p.x + bend_.x * std::sin(kWaves * p.y + phase_.x);
    const float y = p.y + bend_.y * std::sin(kWaves * p.x + phase_.y);
    return {shift_.x + xx_ * x + xy_ * y, shift_.y + yx_ * x + yy_ * y};
  }

 private:
  float xx_ = 0;
  float xy_ = 0;
  float yx_ = 0;
  float yy_ = 0;
  Point shift_{};
  Point bend_{};
  Point phase_{};
};

// The look of the ink: its width and softness in pixels, and brightness and noise out of 255.
struct Ink {
  float half_width = 0;
  float softness = 0;
  float brightness = 0;
  float noise = 0;
};

Ink draw_ink(Generator& random) {
  return {.half_width = draw(random, 0.6F, 1.6F),
          .softness = draw(random, 0.8F, 1.6F),
          .brightness = draw(random, 140, 255),
          .noise = draw(random, 8, 40)};
}

void draw_strokes(const Glyph& glyph, const Hand& hand, float reach, Distances& distances) {
  for (const Stroke& stroke : glyph) {
    Point last = hand.to_pixels(stroke.front());
    for (const Point& point : stroke) {
      const Point next = hand.to_pixels(point);
      distances.add_line(last, next, reach);
      last = next;
    }
  }
}

// A stray mark, so that a few bright pixels in a corner do not give the digit away.
void draw_stray_mark(Generator& random, float reach, Distances& distances) {
  const Point start{draw(random, 0, kDigitSide), draw(random, 0, kDigitSide)};
  const float angle = draw(random, 0, 2 * std::numbers::pi_v<float>);
  const float length = draw(random, 1, 4);
  distances.add_line(
      start, {start.x + length * std::cos(angle), start.y + length * std::sin(angle)}, reach);
}

void write_pixels(const Distances& distances, const Ink& ink, const Generator& random,
                  std::span<std::uint8_t> pixels) {
  std::array<std::uint8_t, 2 * kDigitPixels> noise{};
  fill_noise(random, noise);
  for (std::size_t i = 0; i < kDigitPixels; ++i) {
    const float cover =
        std::clamp((ink.half_width - distances.at(i)) / ink.softness + 0.5F, 0.0F, 1.0F);
    // The sum of two uniform bytes: a triangular distribution in [-1, 1].
    const float grain = static_cast<float>(noise[2 * i] + noise[2 * i + 1] - 255) / 255;
    const float value = ink.brightness * cover + ink.noise * grain;
    pixels[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  }
}

}  // namespace

void draw_digit(Split split, std::int64_t index, std::span<std::uint8_t> pixels) {
  Generator random = image_stream(kDigitsSeed, split, index);
  const auto glyphs = glyphs_of(static_cast<std::size_t>(generated_label(index, kDigitClasses)));
  const Glyph& glyph = glyphs[random.below(glyphs.size())];
  const Hand hand(random);
  const Ink ink = draw_ink(random);
  const float reach = ink.half_width + ink.softness;
  Distances distances;
  draw_strokes(glyph, hand, reach, distances);
  draw_stray_mark(random, reach, distances);
  write_pixels(distances, ink, random, pixels);
}

std::unique_ptr<Dataset> open_digits(Split split, std::int64_t size) {
  check_arg(size >= 0, "digits", "the size must not be negative: ", size);
  if (size == 0) size = split == Split::kTrain ? kDigitsTrainSize : kDigitsTestSize;
  ImageTable table;
  table.image_shape = {1, kDigitsSide, kDigitsSide};
  table.num_classes = kDigitClasses;
  table.normalization = grey_normalization();
  return generate(std::move(table), split, size, draw_digit);
}

}  // namespace mezzo::data
