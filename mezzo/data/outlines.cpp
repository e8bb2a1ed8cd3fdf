#include "mezzo/data/outlines.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mezzo::data {
namespace {

float disc(float x, float y, float radius) { return std::hypot(x, y) - radius; }

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

float triangle(float x, float y) {
  constexpr float kCos30 = 0.8660254F;
  return std::max({y, kCos30 * x - 0.5F * y, -kCos30 * x - 0.5F * y}) - 0.5F;
}

// The star has five points: one edge is mirrored into its ten sectors.
float star(float x, float y) {
  constexpr float kInner = 0.42F;
  constexpr float kSector = std::numbers::pi_v<float> / 5;
  const float radius = std::hypot(x, y);
  const float turns = std::atan2(y, x) / (2 * kSector);
  const float angle = std::abs(turns - std::round(turns)) * 2 * kSector;
  // The edge from the tip (1, 0) to the inner corner.
  const float edge_x = kInner * std::cos(kSector) - 1;
  const float edge_y = kInner * std::sin(kSector);
  const float from_tip_x = radius * std::cos(angle) - 1;
  const float from_tip_y = radius * std::sin(angle);
  return (from_tip_x * edge_y - from_tip_y * edge_x) / std::hypot(edge_x, edge_y);
}

float cross(float x, float y) { return std::min(box(x, y, 0.95F, 0.3F), box(x, y, 0.3F, 0.95F)); }

float crescent(float x, float y) { return std::max(disc(x, y, 0.95F), -disc(x - 0.45F, y, 0.75F)); }

// Two discs, and a corner below them whose sides are tangent to the discs.
float heart(float x, float y) {
  constexpr float kSlope = 0.7071068F;  // of the sides: 45 degrees
  const float side = std::abs(x);
  const float lobes = disc(side - 0.42F, y + 0.38F, 0.46F);
  const float corner =
      std::max({kSlope * (side + y) - 0.488F, kSlope * (side - y) - 0.566F, -0.38F - y});
  return std::min(lobes, corner);
}

}  // namespace

float outline_distance(std::int64_t kind, float x, float y) {
  switch (kind) {
    case 0: return disc(x, y, 0.85F);
    case 1: return box(x, y, 0.75F, 0.75F);
    case 2: return triangle(x, y);
    case 3: return star(x, y);
    case 4: return std::abs(disc(x, y, 0.7F)) - 0.2F;
    case 5: return cross(x, y);
    case 6: return box(x, y, 1.0F, 0.28F);
    case 7: return crescent(x, y);
    case 8: return heart(x, y);
    default: return std::abs(box(x, y, 0.65F, 0.65F)) - 0.17F;
  }
}

}  // namespace mezzo::data
