#include "mezzo/data/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "mezzo/core/error.h"
#include "mezzo/data/generated.h"
#include "mezzo/data/outlines.h"

namespace mezzo::data {
namespace {

constexpr std::uint64_t kShapesSeed = 0x6d657a7a6f2d3032;  // changing it changes the set
constexpr std::int64_t kShapeClasses = kOutlines;
constexpr auto kShapeSide = static_cast<int>(kShapesSide);
constexpr std::size_t kShapeChannels = 3;
constexpr std::size_t kShapePixels = std::size_t{kShapeSide} * kShapeSide;
constexpr float kFullTurn = 2 * std::numbers::pi_v<float>;

using Color = std::array<float, kShapeChannels>;  // from 0 to 255

Color draw_color(Generator& random) {
  return {draw(random, 20, 235), draw(random, 20, 235), draw(random, 20, 235)};
}

float difference(const Color& a, const Color& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

// A background of two colours that blend in waves.
struct Ground {
  Color first{};
  Color second{};
  float wave_x = 0;  // radians per pixel
  float wave_y = 0;
  float phase = 0;

  // The share of the second colour at that pixel.
  float mix_at(int x, int y) const {
    const float angle = wave_x * static_cast<float>(x) + wave_y * static_cast<float>(y) + phase;
    return 0.5F + 0.5F * std::sin(angle);
  }
};

Ground draw_ground(Generator& random) {
  Ground ground;
  ground.first = draw_color(random);
  const Color other = draw_color(random);
  const float contrast = draw(random, 0, 0.4F);
  for (std::size_t c = 0; c < kShapeChannels; ++c) {
    ground.second[c] = ground.first[c] + contrast * (other[c] - ground.first[c]);
  }
  const float direction = draw(random, 0, kFullTurn);
  const float frequency = draw(random, 0.1F, 1.2F);
  ground.wave_x = frequency * std::cos(direction);
  ground.wave_y = frequency * std::sin(direction);
  ground.phase = draw(random, 0, kFullTurn);
  return ground;
}

// A colour that is distinct from both colours of the background.
Color draw_figure_color(Generator& random, const Ground& ground) {
  constexpr int kTries = 16;
  constexpr float kEnough = 200;
  Color best{};
  float best_difference = -1;
  for (int i = 0; i < kTries && best_difference < kEnough; ++i) {
    const Color color = draw_color(random);
    const float least = std::min(difference(color, ground.first), difference(color, ground.second));
    if (least > best_difference) {
      best = color;
      best_difference = least;
    }
  }
  return best;
}

// The pose of the shape: centre and radius in pixels, rotation, and squeeze.
struct Pose {
  float x = 0;
  float y = 0;
  float radius = 0;
  float cosine = 0;
  float sine = 0;
  float squeeze = 0;

  // The share of that pixel that the shape covers, with a soft edge of one pixel.
  float cover_at(std::int64_t kind, int pixel_x, int pixel_y) const {
    const float dx = (static_cast<float>(pixel_x) + 0.5F - x) / radius;
    const float dy = (static_cast<float>(pixel_y) + 0.5F - y) / radius;
    constexpr float kReach = 1.8F;  // in unit radii: no shape extends farther
    if (dx * dx + dy * dy > kReach * kReach) return 0;
    const float u = (cosine * dx + sine * dy) * squeeze;
    const float v = (cosine * dy - sine * dx) / squeeze;
    return std::clamp(0.5F - outline_distance(kind, u, v) * radius, 0.0F, 1.0F);
  }
};

Pose draw_pose(Generator& random) {
  Pose pose;
  pose.radius = draw(random, 9, 14);
  const float room = kShapeSide / 2.0F - 0.8F * pose.radius;
  pose.x = kShapeSide / 2.0F + draw(random, -room, room);
  pose.y = kShapeSide / 2.0F + draw(random, -room, room);
  const float angle = draw(random, 0, kFullTurn);
  pose.cosine = std::cos(angle);
  pose.sine = std::sin(angle);
  pose.squeeze = draw(random, 0.9F, 1.1F);
  return pose;
}

}  // namespace

void draw_shape(Split split, std::int64_t index, std::span<std::uint8_t> pixels) {
  Generator random = image_stream(kShapesSeed, split, index);
  const std::int64_t kind = generated_label(index, kShapeClasses);
  const Ground ground = draw_ground(random);
  const Color figure = draw_figure_color(random, ground);
  const Pose pose = draw_pose(random);
  const float strength = draw(random, 5, 30);
  std::array<std::uint8_t, 2 * kShapePixels * kShapeChannels> noise{};
  fill_noise(random, noise);
  std::size_t i = 0;
  for (int y = 0; y < kShapeSide; ++y) {
    for (int x = 0; x < kShapeSide; ++x) {
      const float cover = pose.cover_at(kind, x, y);
      const float mix = ground.mix_at(x, y);
      for (std::size_t c = 0; c < kShapeChannels; ++c, ++i) {
        const float back = ground.first[c] + mix * (ground.second[c] - ground.first[c]);
        const float grain = static_cast<float>(noise[2 * i] + noise[2 * i + 1] - 255) / 255;
        const float value = back + cover * (figure[c] - back) + strength * grain;
        pixels[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
      }
    }
  }
}

std::unique_ptr<Dataset> open_shapes(Split split, std::int64_t size) {
  check_arg(size >= 0, "shapes", "the size must not be negative: ", size);
  if (size == 0) size = split == Split::kTrain ? kShapesTrainSize : kShapesTestSize;
  ImageTable table;
  table.image_shape = {kShapeChannels, kShapesSide, kShapesSide};
  table.num_classes = kShapeClasses;
  table.class_names = {"circle", "square", "triangle", "star",  "ring",
                       "cross",  "bar",    "crescent", "heart", "frame"};
  table.normalization = cifar10_normalization();
  return generate(std::move(table), split, size, draw_shape);
}

}  // namespace mezzo::data
