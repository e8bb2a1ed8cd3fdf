#include "mezzo/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/resize.h"
#include "tests/unit/data/images.h"
#include "tests/unit/data/transformed.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

// An image whose pixel (y, x) is 10 * y + x + 1, so that a crop shows where it comes from.
Image numbered(std::int64_t height, std::int64_t width) {
  Image image;
  image.reshape({1, height, width});
  for (std::int64_t i = 0; i < height * width; ++i) {
    image.pixels[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(10 * (i / width) + i % width + 1);
  }
  return image;
}

TEST(RandomCrop, IsARectangleOfThePaddedImage) {
  const Image in = numbered(6, 8);
  const RandomCrop crop{.height = 5, .width = 7, .padding = 2, .fill = 255};
  std::set<Bytes> expected;  // every rectangle of the 10x12 padded image
  for (int corner = 0; corner < 36; ++corner) {
    Bytes pixels;
    for (int i = 0; i < 35; ++i) {
      const int y = corner / 6 + i / 7 - 2;
      const int x = corner % 6 + i % 7 - 2;
      const bool inside = y >= 0 && y < 6 && x >= 0 && x < 8;
      pixels.push_back(static_cast<std::uint8_t>(inside ? 10 * y + x + 1 : 255));
    }
    expected.insert(pixels);
  }
  ASSERT_EQ(expected.size(), 36U);
  // 36 positions, 600 draws: one is missed with a probability of 36 * (35 / 36)^600 = 2e-6. The
  // seeds are fixed.
  std::set<Bytes> seen;
  for (std::uint64_t seed = 0; seed < 600; ++seed) seen.insert(transformed(crop, in, seed).pixels);
  EXPECT_EQ(seen, expected);
}

TEST(RandomCrop, OfTheWholeImageIsTheImage) {
  const Image in = random_image({3, 5, 4}, 1);
  EXPECT_EQ(transformed(RandomCrop{.height = 5, .width = 4}, in).pixels, in.pixels);
}

TEST(RandomCrop, KeepsPixelsWhole) {
  const Image in = random_image({3, 9, 9}, 2);
  const Image out = transformed(RandomCrop{.height = 2, .width = 2}, in, 5);
  int found = 0;
  for (std::int64_t corner = 0; corner < 64; ++corner) {
    const ImageView window = in.view().window(corner / 8, corner % 8, 2, 2);
    found += std::equal(window.row(0), window.row(0) + 6, out.pixels.begin()) &&
                     std::equal(window.row(1), window.row(1) + 6, out.pixels.begin() + 6)
                 ? 1
                 : 0;
  }
  EXPECT_EQ(found, 1);
}

TEST(RandomCrop, MayBeLargerThanTheImageWithinThePadding) {
  const Image out =
      transformed(RandomCrop{.height = 4, .width = 4, .padding = 50}, numbered(1, 1), 3);
  EXPECT_LE(std::ranges::count(out.pixels, 1), 1);
  EXPECT_EQ(std::ranges::count(out.pixels, 0) + std::ranges::count(out.pixels, 1), 16);
}

TEST(RandomHorizontalFlip, TwiceIsNothingAndOnceIsTheMirror) {
  const Image in = random_image({3, 4, 5}, 3);
  const RandomHorizontalFlip always{.probability = 1};
  const Image once = transformed(always, in);
  for (std::int64_t i = 0; i < 60; ++i) {
    const std::int64_t c = i % 3;
    const std::int64_t x = i / 3 % 5;
    EXPECT_EQ(at(once, c, i / 15, x), at(in, c, i / 15, 4 - x));
  }
  EXPECT_EQ(transformed(always, once).pixels, in.pixels);
  EXPECT_EQ(transformed(RandomHorizontalFlip{.probability = 0}, in).pixels, in.pixels);
}

TEST(RandomHorizontalFlip, HappensAsOftenAsItShould) {
  const Image in{{1, 1, 2}, {0, 1}};
  for (const double probability : {0.5, 0.2}) {
    int flipped = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      flipped += transformed(RandomHorizontalFlip{probability}, in, seed).pixels[0];
    }
    const double deviation = std::sqrt(2000 * probability * (1 - probability));
    EXPECT_NEAR(flipped, 2000 * probability, 5 * deviation);
  }
}

TEST(ResizeShortSide, KeepsTheProportion) {
  const ResizeShortSide resize{.size = 256};
  EXPECT_EQ(resize.output_shape({3, 500, 375}), Shape({3, 341, 256}));
  EXPECT_EQ(resize.output_shape({3, 375, 500}), Shape({3, 256, 341}));
  EXPECT_EQ(resize.output_shape({3, 10, 10}), Shape({3, 256, 256}));
  EXPECT_EQ(resize.output_shape({3, 0, 0}), Shape({3, 0, 0}));
  const Image in = random_image({3, 20, 10}, 4);
  for (const bool antialias : {false, true}) {
    Bytes expected(3 * 12 * 6);
    resize_bilinear(in.view(), 12, 6, antialias, expected);
    EXPECT_EQ(transformed(ResizeShortSide{.size = 6, .antialias = antialias}, in).pixels, expected);
  }
}

TEST(Resize, IsResizeBilinear) {
  const Image in = random_image({3, 20, 10}, 4);
  for (const bool antialias : {false, true}) {
    Bytes expected(3 * 7 * 9);
    resize_bilinear(in.view(), 7, 9, antialias, expected);
    EXPECT_EQ(transformed(Resize{.height = 7, .width = 9, .antialias = antialias}, in).pixels,
              expected);
  }
}

TEST(CenterCrop, IsTheMiddle) {
  EXPECT_EQ(transformed(CenterCrop{.height = 2, .width = 3}, numbered(4, 7)).pixels,
            Bytes({13, 14, 15, 23, 24, 25}));
  EXPECT_EQ(transformed(CenterCrop{.height = 2, .width = 2}, numbered(3, 3)).pixels,
            Bytes({1, 2, 11, 12}));
  // Half of the remainder is rounded to even: 1.5 to 2 rows, 2.5 to 2 columns.
  EXPECT_EQ(transformed(CenterCrop{.height = 1, .width = 2}, numbered(4, 7)).pixels,
            Bytes({23, 24}));
}

TEST(RandomResizedCrop, TakesAllWhenAllIsAskedFor) {
  const Image in = random_image({3, 30, 30}, 5);
  for (const bool antialias : {false, true}) {
    Bytes expected(3 * 8 * 8);
    resize_bilinear(in.view(), 8, 8, antialias, expected);
    EXPECT_EQ(transformed(RandomResizedCrop{.height = 8,
                                            .width = 8,
                                            .min_area = 1,
                                            .max_area = 1,
                                            .min_ratio = 1,
                                            .max_ratio = 1,
                                            .antialias = antialias},
                          in)
                  .pixels,
              expected);
  }
}

// Squares of 2x2 in 3x3 pixels: each of the four is missed with a probability of (3 / 4)^100 =
// 3e-13. The seeds are fixed.
TEST(RandomResizedCrop, PartsReachEveryEdge) {
  const Image in = numbered(3, 3);
  const RandomResizedCrop crop{.height = 2,
                               .width = 2,
                               .min_area = 4.0 / 9,
                               .max_area = 4.0 / 9,
                               .min_ratio = 1,
                               .max_ratio = 1};
  std::set<Bytes> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) seen.insert(transformed(crop, in, seed).pixels);
  EXPECT_THAT(seen, testing::UnorderedElementsAre(Bytes{1, 2, 11, 12}, Bytes{2, 3, 12, 13},
                                                  Bytes{11, 12, 21, 22}, Bytes{12, 13, 22, 23}));
}

// In an image whose values rise evenly along rows and columns, the mean of a part shows its centre,
// and the extremes its width.
TEST(RandomResizedCrop, PartsLieInsideWithAreasAndRatiosAsAsked) {
  Image in;
  in.reshape({2, 100, 100});
  for (std::size_t i = 0; i < 10'000; ++i) {
    in.pixels[2 * i] = static_cast<std::uint8_t>(2 * (i % 100));
    in.pixels[2 * i + 1] = static_cast<std::uint8_t>(2 * (i / 100));
  }
  const RandomResizedCrop crop{.height = 50, .width = 50, .min_area = 0.25, .antialias = false};
  double least = 1;
  double most = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Image out = transformed(crop, in, seed);
    // 50 samples over `width` pixels: the outer ones are 49/50 of it apart, within a byte each.
    const double width = (at(out, 0, 0, 49) - at(out, 0, 0, 0)) / 2.0 * 50 / 49;
    const double height = (at(out, 1, 49, 0) - at(out, 1, 0, 0)) / 2.0 * 50 / 49;
    const double area = width * height / 10'000;
    least = std::min(least, area);
    most = std::max(most, area);
    EXPECT_GT(width / height, 0.75 * 0.96) << seed;
    EXPECT_LT(width / height, 4.0 / 3 * 1.04) << seed;
  }
  EXPECT_GT(least, 0.25 * 0.95);
  EXPECT_LT(least, 0.35);
  EXPECT_GT(most, 0.8);
}

TEST(RandomResizedCrop, LongImagesGiveTheirMiddle) {
  // No rectangle with these areas and ratios fits into a line of 300 pixels.
  for (const Shape& line : {Shape{1, 1, 300}, Shape{1, 300, 1}}) {
    Image in;
    in.reshape(line);
    for (std::size_t i = 0; i < 300; ++i) in.pixels[i] = static_cast<std::uint8_t>(i < 150);
    in.pixels[149] = in.pixels[150] = 200;
    const RandomResizedCrop crop{.height = 1, .width = 1, .min_area = 0.9};
    EXPECT_EQ(transformed(crop, in, 1).pixels, Bytes({200})) << line[1];
  }
}

TEST(NumberTransforms, AreWhatTheirFormulasSay) {
  const Rescale rescale{.scale = 2, .shift = -3};
  EXPECT_EQ(rescale.value(10, 0), 17);
  EXPECT_EQ(Rescale{}.value(255, 0), 255 * (1.0F / 255));
  const Normalize normalize{.mean = {1, 2}, .deviation = {4, 0.5F}};
  EXPECT_EQ(normalize.value(3, 0), 0.5F);
  EXPECT_EQ(normalize.value(3, 1), 2);
  EXPECT_EQ(message_of<ArgumentError>([&] { normalize.check(3); }),
            "[normalize] needs a mean and a deviation for each of 3 channels: got 2 and 2");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THROW((Rescale{.scale = infinity}.check(3)), ArgumentError);
  EXPECT_THROW((Normalize{.mean = {NAN}, .deviation = {1}}.check(1)), ArgumentError);
  EXPECT_THROW((Normalize{.mean = {0}, .deviation = {-1}}.check(1)), ArgumentError);
}

TEST(Transforms, RefuseParametersThatMakeNoSense) {
  const Shape shape{3, 32, 32};
  EXPECT_EQ(refusal(RandomCrop{.height = 41, .width = 32, .padding = 4}, shape),
            "[random_crop] the image is smaller than the crop: 32x32 with 4 pixels of padding, and "
            "41x32. Resize it first");
  EXPECT_THAT(refusal(RandomCrop{.width = 3}, shape), HasSubstr("must be positive: 0x3"));
  EXPECT_THAT(refusal(RandomCrop{.height = 3, .width = 3, .padding = -1}, shape),
              HasSubstr("padding must not be negative"));
  EXPECT_THAT(refusal(RandomHorizontalFlip{1.5}, shape), HasSubstr("from 0 to 1: 1.5"));
  EXPECT_THAT(refusal(RandomHorizontalFlip{NAN}, shape), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal(Resize{}, shape), HasSubstr("[resize] the size must be positive: 0x0"));
  EXPECT_THAT(refusal(Resize{.height = 1 << 20, .width = 1 << 20}, shape), HasSubstr("too large"));
  EXPECT_THAT(refusal(ResizeShortSide{.size = -1}, shape), HasSubstr("must be positive"));
  EXPECT_THAT(refusal(ResizeShortSide{.size = 1000}, {3, 1, 100'000}), HasSubstr("too large"));
  EXPECT_THAT(refusal(CenterCrop{.height = 33, .width = 3}, shape), HasSubstr("smaller"));
  EXPECT_THAT(refusal(RandomResizedCrop{.height = 4, .width = 4, .min_area = 0}, shape),
              HasSubstr("areas must be"));
  EXPECT_THAT(refusal(RandomResizedCrop{.height = 4, .width = 4, .min_ratio = 2}, shape),
              HasSubstr("ratios must be"));
}

TEST(HwcToChw, IsAViewAndChannelsLast) {
  const Tensor batch = from_values<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 2, 2, 3});
  const Tensor view = hwc_to_chw(batch);
  EXPECT_EQ(view.shape(), Shape({1, 3, 2, 2}));
  EXPECT_EQ(view.raw_data(), batch.raw_data());
  EXPECT_TRUE(view.is_dense(Format::kChannelsLast));
  EXPECT_EQ(view.to_vector<float>(), std::vector<float>({0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  const Tensor image = hwc_to_chw(from_values<float>({0, 1, 2, 3, 4, 5}, {1, 2, 3}));
  EXPECT_EQ(image.shape(), Shape({3, 1, 2}));
  EXPECT_EQ(image.to_vector<float>(), std::vector<float>({0, 3, 1, 4, 2, 5}));
  EXPECT_THROW(hwc_to_chw(from_values<float>({1, 2}, {1, 2})), ArgumentError);
}

}  // namespace
}  // namespace mezzo::data
