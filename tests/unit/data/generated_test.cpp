#include "mezzo/data/generated.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/open.h"
#include "mezzo/data/outlines.h"
#include "mezzo/data/shapes.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/threads.h"

namespace mezzo::data {
namespace {

struct GeneratedSet {
  std::string name;
  void (*draw)(Split, std::int64_t, std::span<std::uint8_t>);
  std::unique_ptr<Dataset> (*open)(Split, std::int64_t);
  Shape shape;
};

class Generated : public ::testing::TestWithParam<GeneratedSet> {
 protected:
  Bytes draw(Split split, std::int64_t index) const {
    Bytes pixels(static_cast<std::size_t>(GetParam().shape.numel()));
    GetParam().draw(split, index, pixels);
    return pixels;
  }
};

std::uint64_t checksum(const Dataset& dataset) {
  std::uint64_t sum = 0xcbf29ce484222325;
  Generator random;
  Bytes pixels(static_cast<std::size_t>(dataset.image_shape().numel()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    sum = (sum ^ static_cast<std::uint64_t>(dataset.read(i, random, pixels))) * 0x100000001b3;
    for (const std::uint8_t pixel : pixels) sum = (sum ^ pixel) * 0x100000001b3;
  }
  return sum;
}

TEST_P(Generated, AnImageDependsOnNothingButItsIndex) {
  const auto set = GetParam().open(Split::kTrain, 40);
  Generator random;
  Bytes pixels(static_cast<std::size_t>(GetParam().shape.numel()));
  for (const std::int64_t index : {39, 0, 17, 39, 3}) {
    EXPECT_EQ(set->read(index, random, pixels), index % 10);
    EXPECT_EQ(pixels, draw(Split::kTrain, index)) << index;
  }
}

TEST_P(Generated, TheThreadCountChangesNothing) {
  const auto checksum_on = [&](int threads) {
    const test::Threads guard(threads);
    return checksum(*GetParam().open(Split::kTest, 500));
  };
  EXPECT_EQ(checksum_on(1), checksum_on(4));
}

TEST_P(Generated, NoTwoImagesOfEitherSplitAreEqual) {
  std::set<Bytes> seen;
  for (std::int64_t i = 0; i < 200; ++i) {
    seen.insert(draw(Split::kTrain, i));
    seen.insert(draw(Split::kTest, i));
  }
  EXPECT_EQ(seen.size(), 400U);
}

TEST_P(Generated, HasTheShapeSizesAndClassesPromised) {
  const auto train = GetParam().open(Split::kTrain, 0);
  EXPECT_EQ(train->size(), 10'000);
  EXPECT_EQ(train->image_shape(), GetParam().shape);
  EXPECT_EQ(train->num_classes(), 10);
  EXPECT_EQ(train->normalization(),
            GetParam().shape[0] == 1 ? grey_normalization() : cifar10_normalization());
  EXPECT_EQ(GetParam().open(Split::kTest, 0)->size(), 2'000);
  EXPECT_THROW(GetParam().open(Split::kTest, -1), ArgumentError);
}

// The accuracy of classifying test images by the nearest mean image of a class. Mean images are the
// simplest classifier, so a set that they solve would be too easy.
double nearest_mean_accuracy(const Dataset& train, const Dataset& test) {
  const auto count = static_cast<std::size_t>(train.image_shape().numel());
  const double per_class = static_cast<double>(train.size()) / 10;
  std::vector<std::vector<double>> means(10, std::vector<double>(count));
  Generator random;
  Bytes pixels(count);
  for (std::int64_t i = 0; i < train.size(); ++i) {
    auto& mean = means[static_cast<std::size_t>(train.read(i, random, pixels))];
    for (std::size_t k = 0; k < count; ++k) mean[k] += pixels[k] / per_class;
  }
  int right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    const std::int64_t label = test.read(i, random, pixels);
    const auto distance = [&](const std::vector<double>& mean) {
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += (mean[k] - pixels[k]) * (mean[k] - pixels[k]);
      return sum;
    };
    const auto nearest = std::ranges::min_element(means, {}, distance);
    right += nearest - means.begin() == label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST_P(Generated, MeanImagesDoNotSolveIt) {
  const auto train = GetParam().open(Split::kTrain, 2000);
  const auto test = GetParam().open(Split::kTest, 500);
  EXPECT_LT(nearest_mean_accuracy(*train, *test), 0.75);
}

INSTANTIATE_TEST_SUITE_P(
    Sets, Generated,
    ::testing::Values(GeneratedSet{"digits", draw_digit, open_digits, {1, 28, 28}},
                      GeneratedSet{"shapes", draw_shape, open_shapes, {3, 32, 32}}),
    [](const auto& set) { return set.param.name; });

TEST(Digits, AreDarkWithSomeInkLikeMnist) {
  const auto set = open_digits(Split::kTrain, 1000);
  Generator random;
  Bytes pixels(784);
  double sum = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    set->read(i, random, pixels);
    for (const std::uint8_t pixel : pixels) sum += pixel;
    EXPECT_GT(*std::ranges::max_element(pixels), 90) << i;
  }
  EXPECT_NEAR(sum / (255.0 * 784 * 1000), 0.11, 0.03);
}

TEST(Outlines, AreNegativeInsideAndKeepWithinTheirRadius) {
  constexpr float kInside[kOutlines][2] = {{0, 0},   {.7F, .7F},  {0, 0},     {0, 0},
                                           {.7F, 0}, {.9F, .25F}, {.9F, .2F}, {-.6F, 0},
                                           {0, 0},   {.65F, .65F}};
  for (std::int64_t kind = 0; kind < kOutlines; ++kind) {
    EXPECT_LT(outline_distance(kind, kInside[kind][0], kInside[kind][1]), 0) << kind;
    for (int i = 0; i < 64; ++i) {
      const float angle = static_cast<float>(i) * 0.0981748F;
      EXPECT_GT(outline_distance(kind, 1.25F * std::cos(angle), 1.25F * std::sin(angle)), 0)
          << kind << " at " << angle;
    }
  }
  for (const std::int64_t hollow : {4, 9}) EXPECT_GT(outline_distance(hollow, 0, 0), 0);
}

TEST(Noise, IsApartFromTheStreamAndCoversOddLengths) {
  Generator random = stream_of(1, 2, 3);
  Bytes noise(37);
  fill_noise(random, noise);
  EXPECT_EQ(random.position().offset, 0U);
  const std::uint32_t first = random.next();
  EXPECT_NE(first, noise[0] | noise[1] << 8 | noise[2] << 16 | noise[3] << 24);
  Bytes longer(64);
  fill_noise(stream_of(1, 2, 3), longer);
  EXPECT_TRUE(std::equal(noise.begin(), noise.end(), longer.begin()));
  EXPECT_NE(Bytes(longer.begin(), longer.begin() + 16),
            Bytes(longer.begin() + 16, longer.begin() + 32));
}

}  // namespace
}  // namespace mezzo::data
