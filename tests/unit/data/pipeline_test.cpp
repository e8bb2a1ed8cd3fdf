#include "mezzo/data/pipeline.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/resize.h"
#include "mezzo/data/stream.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

std::vector<Transform> usual_transforms() {
  return {RandomCrop{.height = 8, .width = 8, .padding = 2}, RandomHorizontalFlip{},
          Resize{.height = 21, .width = 21}};
}

Bytes pixels_of(const Dataset& set, std::int64_t index, std::uint64_t seed) {
  Generator random(seed);
  Bytes pixels(static_cast<std::size_t>(set.image_shape().numel()));
  EXPECT_EQ(set.read(index, random, pixels), index % 10);
  return pixels;
}

TEST(Map, AppliesTransformsInOrderWithOneStream) {
  const auto set = random_set(5, {3, 8, 8});
  const auto mapped = map(*set, usual_transforms());
  EXPECT_EQ(mapped->size(), 5);
  EXPECT_EQ(mapped->num_classes(), 10);
  EXPECT_EQ(mapped->image_shape(), Shape({3, 21, 21}));
  EXPECT_EQ(mapped->normalization(), cifar10_normalization());
  for (std::int64_t index = 0; index < 5; ++index) {
    Generator random(7);
    Image image;
    set->read_image(index, random, image);
    Bytes cropped(3 * 8 * 8);
    RandomCrop{.height = 8, .width = 8, .padding = 2}.apply(image.view(), random, cropped);
    Bytes flipped(cropped.size());
    RandomHorizontalFlip{}.apply(view_of(cropped.data(), {3, 8, 8}), random, flipped);
    Bytes expected(3 * 21 * 21);
    resize_bilinear(view_of(flipped.data(), {3, 8, 8}), 21, 21, false, expected);
    EXPECT_EQ(pixels_of(*mapped, index, 7), expected);
    Image by_image;
    Generator again(7);
    EXPECT_EQ(mapped->read_image(index, again, by_image), index);
    EXPECT_EQ(by_image.shape, mapped->image_shape());
    EXPECT_EQ(by_image.pixels, expected);
  }
}

TEST(Map, OwnsItsSourceIfGivenIt) {
  const auto set = random_set(5, {3, 8, 8});
  const auto mapped = map(map(random_set(5, {3, 8, 8}), {CenterCrop{.height = 6, .width = 6}}),
                          {CenterCrop{.height = 4, .width = 4}});
  EXPECT_EQ(pixels_of(*mapped, 3, 0),
            pixels_of(*map(*set, {CenterCrop{.height = 4, .width = 4}}), 3, 0));
}

TEST(Map, WithoutTransformsIsTheSource) {
  const auto set = random_set(5, {1, 4, 4});
  const auto mapped = map(*set, {});
  EXPECT_EQ(mapped->image_shape(), set->image_shape());
  EXPECT_EQ(mapped->numbers(), set->numbers());
  EXPECT_EQ(pixels_of(*mapped, 2, 0), pixels_of(*set, 2, 0));
  EXPECT_EQ(mapped->describe(2), "image 2");
}

TEST(Map, NumbersAreThoseOfTheLastTransforms) {
  const auto set = random_set(2, {1, 2, 2});
  EXPECT_EQ(set->numbers()[7], (7 / 255.0F - 0.1307F) / 0.3081F);
  const auto mapped = map(*set, {RandomHorizontalFlip{}, Rescale{.scale = 0.5F, .shift = 1},
                                 Normalize{.mean = {2}, .deviation = {4}}});
  ASSERT_EQ(mapped->numbers().size(), 256U);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(mapped->numbers()[byte], (static_cast<float>(byte) * 0.5F + 1 - 2) / 4);
  }
  // If only images change again, the values of bytes stay.
  const auto flipped = map(*mapped, {RandomHorizontalFlip{}});
  EXPECT_EQ(flipped->numbers(), mapped->numbers());
  DataLoader loader(*flipped, {.batch_size = 2, .shuffle = false});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  for (const float value : batch.images.to_vector<float>()) {
    EXPECT_EQ(std::ranges::count(mapped->numbers(), value), 1);
  }
}

TEST(Map, RefusesWhatCannotFollow) {
  const auto set = random_set(2, {3, 8, 8});
  const auto error_of = [&](std::vector<Transform> transforms) {
    return message_of<ArgumentError>([&] { map(*set, std::move(transforms)); });
  };
  EXPECT_EQ(error_of({Rescale{}, Resize{.height = 4, .width = 4}}),
            "[map] a transform of images follows one that gives floating-point values. Put Rescale "
            "and Normalize last");
  EXPECT_THAT(message_of<ArgumentError>([] { map(std::unique_ptr<Dataset>(), {}); }),
              HasSubstr("[map] the data set is null"));
  EXPECT_THAT(message_of<ArgumentError>([] { repeat(std::unique_ptr<Dataset>(), 2); }),
              HasSubstr("[repeat] the data set is null"));
  EXPECT_THAT(error_of({CenterCrop{.height = 4, .width = 4}, CenterCrop{.height = 5, .width = 4}}),
              HasSubstr("[center_crop] the image is smaller than the crop: 4x4"));
  EXPECT_THAT(error_of({Normalize{.mean = {0}, .deviation = {1}}}), HasSubstr("3 channels"));
}

// Image i is i + 1 pixels wide and two high.
class WideningSet final : public Dataset {
 public:
  std::int64_t size() const override { return 6; }
  Shape image_shape() const override { return {1, 0, 0}; }
  std::int64_t num_classes() const override { return 10; }
  Normalization normalization() const override { return grey_normalization(); }
  std::int64_t read(std::int64_t /*index*/, Generator& /*random*/,
                    std::span<std::uint8_t> /*pixels*/) const override {
    fail("widening", "the images differ in size");
  }
  std::int64_t read_image(std::int64_t index, Generator& /*random*/, Image& image) const override {
    image = random_image({1, 2, index + 1}, static_cast<std::uint64_t>(index));
    return index;
  }
};

TEST(Map, BringsImagesOfAnySizeToOne) {
  const WideningSet set;
  const auto mapped = map(
      set, {ResizeShortSide{.size = 4}, RandomHorizontalFlip{}, Resize{.height = 3, .width = 3}});
  EXPECT_EQ(mapped->image_shape(), Shape({1, 3, 3}));
  DataLoader loader(*mapped, {.batch_size = 6});
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  EXPECT_EQ(message_of<ArgumentError>([&] { const DataLoader unfit(set, {}); }),
            "[loader] the images differ in size. Apply a Resize with map() first");
  const auto still = map(set, {ResizeShortSide{.size = 4}});
  EXPECT_EQ(still->image_shape(), Shape({1, 0, 0}));
  EXPECT_THROW(DataLoader(*still, {}), ArgumentError);
}

TEST(Map, NamesTheImageThatATransformCannotTake) {
  const WideningSet set;
  const auto mapped = map(set, {CenterCrop{.height = 2, .width = 3}});
  DataLoader loader(*mapped, {.batch_size = 6, .shuffle = false});
  Batch batch;
  EXPECT_EQ(message_of<ArgumentError>([&] { loader.next(batch); }),
            "[map] image 0: [center_crop] the image is smaller than the crop: 2x1 with 0 pixels of "
            "padding, and 2x3. Resize it first");
}

TEST(Repeat, GoesThroughTheSetSeveralTimes) {
  const auto set = random_set(4, {1, 2, 2});
  const auto twice = repeat(*set, 2);
  EXPECT_EQ(twice->size(), 8);
  EXPECT_EQ(twice->describe(6), "image 2");
  Generator random;
  Bytes pixels(4);
  EXPECT_EQ(twice->read(6, random, pixels), 2);
  EXPECT_EQ(pixels, pixels_of(*set, 2, 0));
  Image image;
  EXPECT_EQ(twice->read_image(7, random, image), 3);
  EXPECT_EQ(image.pixels, pixels_of(*set, 3, 0));
  EXPECT_EQ(repeat(repeat(random_set(3, {1, 1, 1}), 3), 2)->size(), 18);
  EXPECT_THROW(repeat(*set, 0), ArgumentError);
  EXPECT_THROW(repeat(*set, std::int64_t{1} << 62), ArgumentError);
}

TEST(Repeat, TransformsAnImageAnewEachTime) {
  const auto set = random_set(1, {1, 9, 9});
  const auto many = repeat(map(*set, {RandomCrop{.height = 9, .width = 9, .padding = 9}}), 8);
  DataLoader loader(*many, {.batch_size = 8, .shuffle = false});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const std::vector<float> values = batch.images.to_vector<float>();
  std::set<std::vector<float>> images;
  for (std::ptrdiff_t i = 0; i < 8; ++i) {
    images.insert({values.begin() + 81 * i, values.begin() + 81 * (i + 1)});
  }
  EXPECT_GT(images.size(), 6U);  // of 361 positions each
}

}  // namespace
}  // namespace mezzo::data
