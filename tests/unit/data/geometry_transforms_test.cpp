#include "mezzo/data/geometry_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/images.h"
#include "tests/unit/data/transformed.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

TEST(RandomVerticalFlip, TurnsRowsAroundOrDoesNot) {
  const Image in = random_image({3, 5, 4}, 1);
  const Image flipped = transformed(RandomVerticalFlip{1}, in);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 4; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(at(flipped, c, y, x), at(in, c, 4 - y, x));
    }
  }
  EXPECT_EQ(transformed(RandomVerticalFlip{0}, in).pixels, in.pixels);
  int flips = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    flips += transformed(RandomVerticalFlip{}, in, seed).pixels != in.pixels ? 1 : 0;
  }
  EXPECT_NEAR(flips, 500, 4 * std::sqrt(1000 * 0.25));  // four deviations
}

// torchvision's rotate(): the inverse of a rotation by `angle` degrees counterclockwise about the
// centre, as an affine map of positions; a pixel's position is the centre of its square. `at_place`
// is the image at a position, surrounded by the fill.
template <class AtPlace>
std::vector<double> rotated(const Shape& shape, double angle, const AtPlace& at_place) {
  const double radians = -angle * std::numbers::pi / 180;  // rows count downwards
  const double a = std::cos(radians);
  const double b = std::sin(radians);
  const double middle_x = static_cast<double>(shape[2]) * 0.5;
  const double middle_y = static_cast<double>(shape[1]) * 0.5;
  std::vector<double> out;
  for (std::int64_t row = 0; row < shape[1]; ++row) {
    for (std::int64_t column = 0; column < shape[2]; ++column) {
      const double x = static_cast<double>(column) + 0.5 - middle_x;
      const double y = static_cast<double>(row) + 0.5 - middle_y;
      const double from_x = a * x + b * y + middle_x - 0.5;
      const double from_y = -b * x + a * y + middle_y - 0.5;
      for (std::int64_t c = 0; c < shape[0]; ++c) out.push_back(at_place(from_y, from_x, c));
    }
  }
  return out;
}

double pixel_or_fill(const Image& image, std::int64_t y, std::int64_t x, std::int64_t c,
                     double fill) {
  const bool is_inside = y >= 0 && y < image.shape[1] && x >= 0 && x < image.shape[2];
  return is_inside ? at(image, c, y, x) : fill;
}

TEST(RandomRotation, IsTorchvisionsNearestAndBilinear) {
  for (const Shape& shape : {Shape{3, 9, 12}, Shape{1, 7, 5}}) {
    const Image in = random_image(shape, 2);
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Generator same(seed);
      const double angle = -170 + 340 * static_cast<double>(same.uniform());
      const auto nearest = rotated(shape, angle, [&](double y, double x, std::int64_t c) {
        return pixel_or_fill(in, std::lrint(y), std::lrint(x), c, 9);
      });
      const Image close = transformed(RandomRotation{.degrees = 170, .fill = 9}, in, seed);
      const std::vector<double> got(close.pixels.begin(), close.pixels.end());
      EXPECT_EQ(got, nearest) << angle;
      const auto between = rotated(shape, angle, [&](double y, double x, std::int64_t c) {
        double sum = 0;
        for (std::int64_t i = 0; i < 2; ++i) {
          for (std::int64_t j = 0; j < 2; ++j) {
            const double row = std::floor(y) + static_cast<double>(i);
            const double column = std::floor(x) + static_cast<double>(j);
            sum += (1 - std::abs(y - row)) * (1 - std::abs(x - column)) *
                   pixel_or_fill(in, std::lrint(row), std::lrint(column), c, 9);
          }
        }
        return sum;
      });
      const Image mixed =
          transformed(RandomRotation{.degrees = 170, .bilinear = true, .fill = 9}, in, seed);
      for (std::size_t i = 0; i < between.size(); ++i) {
        // Rounded once to the nearest byte; sums of bytes in double.
        EXPECT_NEAR(mixed.pixels[i], between[i], 0.5 + 255 * 16 * 0x1p-52) << angle;
      }
    }
  }
}

TEST(RandomRotation, PositiveAnglesTurnAgainstTheClock) {
  // One bright pixel to the right of the centre: a counterclockwise rotation moves it upwards.
  Image in;
  in.reshape({1, 31, 31});
  in.pixels[15 * 31 + 25] = 255;
  int upwards = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Generator same(seed);
    const double angle = -90 + 180 * static_cast<double>(same.uniform());
    const Image out = transformed(RandomRotation{.degrees = 90, .bilinear = true}, in, seed);
    const auto brightest = std::ranges::max_element(out.pixels) - out.pixels.begin();
    if (std::abs(angle) < 20) continue;
    EXPECT_EQ(brightest / 31 < 15, angle > 0) << angle;
    upwards += angle > 0 ? 1 : 0;
  }
  EXPECT_GT(upwards, 20);
}

TEST(RandomRotation, ByNothingIsTheImage) {
  const Image in = random_image({3, 9, 12}, 3);
  EXPECT_EQ(transformed(RandomRotation{}, in).pixels, in.pixels);
  EXPECT_EQ(transformed(RandomRotation{.bilinear = true}, in).pixels, in.pixels);
}

// The rectangle in which two images differ.
struct Covered {
  std::int64_t top = 1000, left = 1000, bottom = -1, right = -1, pixels = 0;
};

Covered covered_in(const Image& out, std::uint8_t fill) {
  Covered found;
  for (std::int64_t y = 0; y < out.shape[1]; ++y) {
    for (std::int64_t x = 0; x < out.shape[2]; ++x) {
      if (at(out, 0, y, x) != fill) continue;
      found.top = std::min(found.top, y);
      found.left = std::min(found.left, x);
      found.bottom = std::max(found.bottom, y);
      found.right = std::max(found.right, x);
      ++found.pixels;
    }
  }
  return found;
}

TEST(RandomErasing, CoversARectangleOfTheAreaAskedFor) {
  Image in;
  in.reshape({3, 40, 50});
  std::ranges::fill(in.pixels, 7);
  const RandomErasing erasing{.probability = 1, .fill = {200}};
  double least = 1;
  double most = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Covered covered = covered_in(transformed(erasing, in, seed), 200);
    const std::int64_t rows = covered.bottom - covered.top + 1;
    const std::int64_t columns = covered.right - covered.left + 1;
    EXPECT_EQ(covered.pixels, rows * columns) << "one whole rectangle";
    const double area = static_cast<double>(covered.pixels) / 2000;
    least = std::min(least, area);
    most = std::max(most, area);
    // Sides are rounded by at most half a pixel.
    const auto ratio = [&](double by) {
      return (static_cast<double>(rows) + by) / (static_cast<double>(columns) - by);
    };
    EXPECT_GE(ratio(0.5), 0.3);
    EXPECT_LE(ratio(-0.5), 3.3);
  }
  EXPECT_GT(least, 0.01);
  EXPECT_LT(least, 0.06);
  EXPECT_GT(most, 0.28);
  EXPECT_LT(most, 0.37);
}

TEST(RandomErasing, FillsEachChannelWithItsByteOrLeavesTheImage) {
  const Image in = random_image({3, 20, 20}, 6);
  const RandomErasing erasing{.probability = 1, .fill = {1, 2, 3}};
  const Image out = transformed(erasing, in, 1);
  int covered = 0;
  for (std::size_t i = 0; i < out.pixels.size(); i += 3) {
    const bool is_same = std::equal(&out.pixels[i], &out.pixels[i] + 3, &in.pixels[i]);
    const bool is_fill = out.pixels[i] == 1 && out.pixels[i + 1] == 2 && out.pixels[i + 2] == 3;
    EXPECT_TRUE(is_same || is_fill);
    covered += is_fill ? 1 : 0;
  }
  EXPECT_GT(covered, 0);
  EXPECT_EQ(transformed(RandomErasing{.probability = 0}, in, 1).pixels, in.pixels);
}

TEST(GeometryTransforms, RefuseParametersThatMakeNoSense) {
  const Shape shape{3, 8, 8};
  EXPECT_THAT(refusal(RandomVerticalFlip{-1}, shape), HasSubstr("from 0 to 1: -1"));
  EXPECT_EQ(refusal(RandomRotation{.degrees = 181}, shape),
            "[random_rotation] the degrees must be from 0 to 180: 181");
  EXPECT_THAT(refusal(RandomRotation{.degrees = NAN}, shape), HasSubstr("from 0 to 180"));
  EXPECT_THAT(refusal(RandomErasing{.probability = 2}, shape), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal(RandomErasing{.min_area = 0}, shape), HasSubstr("areas"));
  EXPECT_THAT(refusal(RandomErasing{.min_ratio = 4}, shape), HasSubstr("ratios"));
  EXPECT_THAT(refusal(RandomErasing{.fill = {1, 2}}, shape), HasSubstr("each of 3: got 2"));
}

}  // namespace
}  // namespace mezzo::data
