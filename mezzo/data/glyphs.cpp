#include "mezzo/data/glyphs.h"

#include <array>
#include <cmath>
#include <numbers>

namespace mezzo::data {
namespace {

// A part of an ellipse, from angle `from` to angle `to` in degrees: 0 is right, 90 is down.
struct Arc {
  Point center{};
  Point radius{};
  float from = 0;
  float to = 360;
};

Stroke operator+(Stroke stroke, const Stroke& more) {
  stroke.insert(stroke.end(), more.begin(), more.end());
  return stroke;
}

Stroke curve(const Arc& arc) {
  constexpr float kDegreesPerLine = 24;
  const int lines = static_cast<int>(std::ceil(std::abs(arc.to - arc.from) / kDegreesPerLine));
  Stroke stroke;
  for (int i = 0; i <= lines; ++i) {
    const float degrees =
        arc.from + (arc.to - arc.from) * static_cast<float>(i) / static_cast<float>(lines);
    const float angle = degrees * std::numbers::pi_v<float> / 180;
    stroke.push_back({arc.center.x + arc.radius.x * std::cos(angle),
                      arc.center.y + arc.radius.y * std::sin(angle)});
  }
  return stroke;
}

Stroke lines(std::initializer_list<Point> points) { return {points}; }

using Font = std::array<std::vector<Glyph>, 10>;

Font make_font() {
  Font font;
  font[0] = {{curve({{0, 0}, {.55F, .9F}})}, {curve({{0, 0}, {.4F, .85F}})}};
  font[1] = {{lines({{0, -.9F}, {0, .9F}})},
             {lines({{-.35F, -.5F}, {.05F, -.9F}, {.05F, .9F}})},
             {lines({{-.3F, -.6F}, {0, -.9F}, {0, .9F}}), lines({{-.35F, .9F}, {.35F, .9F}})}};
  font[2] = {{curve({{0, -.4F}, {.5F, .5F}, 195, 395}) + lines({{-.5F, .9F}, {.55F, .9F}})},
             {curve({{0, -.45F}, {.45F, .45F}, 180, 400}) +
              curve({{-.2F, .65F}, {.25F, .22F}, 150, -60}) + lines({{.55F, .85F}})}};
  font[3] = {{curve({{-.05F, -.45F}, {.48F, .45F}, 205, 450}) +
              curve({{-.05F, .45F}, {.55F, .45F}, 270, 515})},
             {lines({{-.45F, -.85F}, {.45F, -.85F}, {0, -.15F}}) +
              curve({{-.02F, .4F}, {.5F, .52F}, 270, 515})}};
  font[4] = {{lines({{-.3F, -.9F}, {-.5F, .15F}, {.5F, .15F}}), lines({{.25F, -.5F}, {.2F, .9F}})},
             {lines({{.25F, .9F}, {.25F, -.9F}, {-.55F, .3F}, {.55F, .3F}})}};
  font[5] = {{lines({{.45F, -.88F}, {-.38F, -.88F}, {-.42F, -.05F}}) +
              curve({{-.03F, .35F}, {.52F, .53F}, 225, 510})},
             {lines({{-.35F, -.85F}, {-.4F, -.1F}}) + curve({{-.05F, .38F}, {.5F, .5F}, 230, 500}),
              lines({{-.35F, -.85F}, {.5F, -.9F}})}};
  font[6] = {
      {curve({{.4F, .35F}, {.9F, 1.22F}, 265, 180}) + curve({{0, .4F}, {.5F, .5F}, 180, 540})},
      {lines({{.2F, -.9F}, {-.35F, .1F}}) + curve({{.02F, .42F}, {.45F, .46F}, 200, 560})}};
  font[7] = {
      {lines({{-.5F, -.88F}, {.5F, -.88F}, {-.15F, .9F}})},
      {lines({{-.5F, -.85F}, {.5F, -.88F}, {.05F, .0F}, {-.1F, .9F}})},
      {lines({{-.5F, -.88F}, {.5F, -.88F}, {-.15F, .9F}}), lines({{-.25F, .02F}, {.4F, .02F}})}};
  font[8] = {{curve({{0, -.45F}, {.4F, .43F}, 90, 450}), curve({{0, .45F}, {.5F, .46F}, 270, 630})},
             {curve({{0, -.42F}, {.42F, .46F}, 60, 400}) +
              curve({{0, .48F}, {.45F, .44F}, 240, -60}) + lines({{.2F, -.02F}})}};
  font[9] = {
      {curve({{0, -.4F}, {.47F, .48F}, 0, 360}) + lines({{.42F, .25F}, {.2F, .9F}})},
      {curve({{0, -.42F}, {.45F, .46F}, 0, 360}) + lines({{.45F, .9F}})},
      {curve({{0, -.4F}, {.48F, .5F}, 0, 360}) + curve({{-.45F, -.35F}, {.93F, 1.2F}, 0, 85})}};
  return font;
}

}  // namespace

std::span<const Glyph> glyphs_of(std::size_t digit) {
  static const Font kFont = make_font();
  return kFont[digit];
}

}  // namespace mezzo::data
