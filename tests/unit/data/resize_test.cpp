#include "mezzo/data/resize.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

Image resized(const Image& in, std::int64_t height, std::int64_t width, bool antialias) {
  Image out;
  out.reshape({in.shape[0], height, width});
  resize_bilinear(in.view(), height, width, antialias, out.pixels);
  return out;
}

double pixel(const Image& image, std::int64_t c, std::int64_t y, std::int64_t x) {
  const std::int64_t row = std::clamp<std::int64_t>(y, 0, image.shape[1] - 1);
  const std::int64_t column = std::clamp<std::int64_t>(x, 0, image.shape[2] - 1);
  return at(image, c, row, column);
}

// Output pixel (y, x) by the definition of half-pixel bilinear interpolation: from the four
// neighbours of the sampled position, where the edge extends outwards.
double plain_bilinear(const Image& in, const Shape& out, std::int64_t c, std::int64_t y,
                      std::int64_t x) {
  const double fy = (static_cast<double>(y) + 0.5) * static_cast<double>(in.shape[1]) /
                        static_cast<double>(out[1]) -
                    0.5;
  const double fx = (static_cast<double>(x) + 0.5) * static_cast<double>(in.shape[2]) /
                        static_cast<double>(out[2]) -
                    0.5;
  const auto top = static_cast<std::int64_t>(std::floor(fy));
  const auto left = static_cast<std::int64_t>(std::floor(fx));
  const double down = fy - static_cast<double>(top);
  const double right = fx - static_cast<double>(left);
  return (1 - down) *
             ((1 - right) * pixel(in, c, top, left) + right * pixel(in, c, top, left + 1)) +
         down *
             ((1 - right) * pixel(in, c, top + 1, left) + right * pixel(in, c, top + 1, left + 1));
}

// The weight of input pixel `i` in an output pixel along one axis when shrinking: a triangle that
// reaches one output pixel in each direction, over existing pixels.
std::vector<double> plain_weights(std::int64_t in, std::int64_t out, std::int64_t at) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double centre = (static_cast<double>(at) + 0.5) * scale;
  std::vector<double> weights;
  double total = 0;
  for (std::int64_t i = 0; i < in; ++i) {
    const double distance = std::abs(static_cast<double>(i) + 0.5 - centre) / std::max(scale, 1.0);
    weights.push_back(std::max(1 - distance, 0.0));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

double plain_antialias(const Image& in, const Shape& out, std::int64_t c, std::int64_t y,
                       std::int64_t x) {
  const std::vector<double> down = plain_weights(in.shape[1], out[1], y);
  const std::vector<double> right = plain_weights(in.shape[2], out[2], x);
  double sum = 0;
  for (std::size_t i = 0; i < down.size() * right.size(); ++i) {
    const std::size_t row = i / right.size();
    const std::size_t column = i % right.size();
    sum += down[row] * right[column] *
           at(in, c, static_cast<std::int64_t>(row), static_cast<std::int64_t>(column));
  }
  return sum;
}

// Half a unit for the last rounding. Before it, each of `taps` weights of a column has an error of
// at most half of 2^-16, and of a row half of 2^-22, times 255. A row's sum is rounded to 2^-7.
double tolerance(double taps) { return 0.5 + 255 * taps * (0x1p-17 + 0x1p-23) + 0x1p-8; }

using Plain = double(const Image&, const Shape&, std::int64_t, std::int64_t, std::int64_t);

double largest_error(const Image& in, const Image& out, Plain* plain) {
  double largest = 0;
  for (std::int64_t i = 0; i < out.shape.numel(); ++i) {
    const std::int64_t c = i % out.shape[0];
    const std::int64_t x = i / out.shape[0] % out.shape[2];
    const std::int64_t y = i / out.shape[0] / out.shape[2];
    largest = std::max(largest, std::abs(plain(in, out.shape, c, y, x) - at(out, c, y, x)));
  }
  return largest;
}

struct Sizes {
  std::int64_t channels, height, width, to_height, to_width;
};

const Sizes kSizes[] = {{3, 32, 32, 224, 224}, {3, 7, 5, 5, 7},     {1, 28, 28, 32, 32},
                        {3, 64, 48, 20, 31},   {4, 9, 9, 9, 20},    {2, 1, 1, 3, 5},
                        {1, 100, 3, 1, 1},     {3, 33, 65, 16, 130}};

TEST(Resize, IsHalfPixelBilinear) {
  for (const Sizes& size : kSizes) {
    const Image in = random_image({size.channels, size.height, size.width}, 1);
    const Image out = resized(in, size.to_height, size.to_width, false);
    EXPECT_LE(largest_error(in, out, plain_bilinear), tolerance(2)) << out.shape[1];
  }
}

TEST(Resize, AntialiasAveragesWhatAPixelCovers) {
  for (const Sizes& size : kSizes) {
    const Image in = random_image({size.channels, size.height, size.width}, 2);
    const Image out = resized(in, size.to_height, size.to_width, true);
    const double scale =
        std::max(1.0, static_cast<double>(size.height) / static_cast<double>(size.to_height));
    EXPECT_LE(largest_error(in, out, plain_antialias), tolerance(2 * scale + 1)) << out.shape[1];
  }
}

TEST(Resize, EnlargingIsTheSameWithAntialias) {
  const Image in = random_image({3, 32, 20}, 3);
  EXPECT_EQ(resized(in, 224, 21, true).pixels, resized(in, 224, 21, false).pixels);
}

TEST(Resize, KnownValues) {
  const Image in{{1, 1, 2}, {0, 200}};
  EXPECT_EQ(resized(in, 1, 4, false).pixels, Bytes({0, 50, 150, 200}));
  const Image four{{1, 1, 4}, {0, 100, 200, 40}};
  // Without antialias these are pixels 0.5 and 2.5; with it, (3 a + 3 b + c) / 7 over all pixels
  // within a distance of two.
  EXPECT_EQ(resized(four, 1, 2, false).pixels, Bytes({50, 120}));
  EXPECT_EQ(resized(four, 1, 2, true).pixels, Bytes({71, 117}));
}

TEST(Resize, ThatChangesNothingChangesNothing) {
  const Image in = random_image({3, 13, 17}, 4);
  for (const bool antialias : {false, true}) {
    EXPECT_EQ(resized(in, 13, 17, antialias).pixels, in.pixels);
  }
}

TEST(Resize, KeepsPlainImagesAndTheirExtremes) {
  for (const int value : {0, 1, 128, 255}) {
    Image in;
    in.reshape({3, 50, 40});
    std::ranges::fill(in.pixels, static_cast<std::uint8_t>(value));
    for (const Sizes& size : kSizes) {
      const Image out = resized(in, size.to_height, size.to_width, size.channels == 3);
      EXPECT_EQ(std::ranges::count(out.pixels, static_cast<std::uint8_t>(value)),
                static_cast<std::ptrdiff_t>(out.pixels.size()));
    }
  }
}

TEST(Resize, TakesWindowsOfLargerImages) {
  const Image in = random_image({3, 20, 30}, 5);
  Image part;
  part.reshape({3, 9, 11});
  for (std::int64_t y = 0; y < 9; ++y) {
    std::copy_n(in.view().row(4 + y) + 6 * 3, 11 * 3, part.pixels.begin() + y * 33);
  }
  Bytes out(3 * 25 * 25);
  resize_bilinear(in.view().window(4, 6, 9, 11), 25, 25, true, out);
  EXPECT_EQ(out, resized(part, 25, 25, true).pixels);
}

TEST(Resize, RefusesEmptyImages) {
  const Image in = random_image({3, 2, 2}, 6);
  Bytes out(12);
  EXPECT_EQ(message_of<ArgumentError>([&] { resize_bilinear(in.view(), 0, 4, false, out); }),
            "[resize] an image is empty: [3, 2, 2] to 0x4. Give it at least one pixel");
}

}  // namespace
}  // namespace mezzo::data
