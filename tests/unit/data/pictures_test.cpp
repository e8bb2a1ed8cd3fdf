#include "mezzo/data/pictures.h"

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/decode.h"
#include "mezzo/data/loader.h"
#include "mezzo/io/png.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Image image_of(const Shape& shape, std::vector<std::uint8_t> pixels) {
  return {.shape = shape, .pixels = std::move(pixels)};
}

TEST(Pictures, AreTheBytesThatBatchesWereMadeOf) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const auto set = random_set(5, {3, 4, 6});
    DataLoader loader(*set, {.batch_size = 4, .image_dtype = dtype});
    Batch batch;
    loader.next(batch);
    const std::vector<Image> pictures = pictures_of(batch.images, set->numbers(), 3);
    ASSERT_EQ(pictures.size(), 3U);
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      Image expected;
      Generator random(0);
      set->read_image(batch.indices[i], random, expected);
      EXPECT_EQ(pictures[i].shape, expected.shape);
      EXPECT_EQ(pictures[i].pixels, expected.pixels) << name_of(dtype) << " " << i;
    }
  }
}

TEST(Pictures, NumbersBetweenTwoBytesBecomeTheNearer) {
  std::vector<float> numbers;
  for (int byte = 0; byte < 256; ++byte) numbers.push_back(static_cast<float>(-2 * byte));
  const Tensor images = from_values({-2.9F, -3.1F, 7.0F, -1e9F}, {1, 1, 1, 4});
  EXPECT_THAT(pictures_of(images, numbers, 9).at(0).pixels, ElementsAre(1, 2, 0, 255));
}

TEST(Pictures, BatchesThatDoNotFitAreRefused) {
  EXPECT_THAT(message_of<ArgumentError>([] {
                pictures_of(zeros({2, 3}), {}, 1);
              }),
              HasSubstr("a batch is [n, c, h, w]"));
  EXPECT_THAT(message_of<ArgumentError>([] {
                pictures_of(zeros({1, 3, 2, 2}), std::vector<float>(256), 1);
              }),
              HasSubstr("256 numbers for each of 3 channels: got 256"));
}

TEST(Pictures, ShrinkToMeansOfBlocks) {
  const Image grey = image_of({1, 3, 4}, {0, 2, 10, 10,  //
                                          4, 6, 11, 11,  //
                                          9, 9, 9, 9});
  const Image half = shrunk(grey, 2);
  EXPECT_EQ(half.shape, Shape({1, 1, 2}));
  EXPECT_THAT(half.pixels, ElementsAre(3, 11));  // 10.5
  EXPECT_EQ(shrunk(grey, 4).pixels, grey.pixels);
  const Image line = shrunk(image_of({3, 1, 4}, {0, 1, 2, 2, 3, 4, 8, 8, 8, 8, 8, 8}), 2);
  EXPECT_EQ(line.shape, Shape({3, 1, 2}));
  EXPECT_THAT(line.pixels, ElementsAre(1, 2, 3, 8, 8, 8));
}

TEST(Pictures, ASheetHasThemInRows) {
  const std::vector<Image> three(3, image_of({1, 1, 2}, {200, 201}));
  const Image sheet = contact_sheet(three, 2);
  EXPECT_EQ(sheet.shape, Shape({1, 8, 10}));
  for (const auto& [y, x] : {std::pair(2, 2), std::pair(2, 6), std::pair(5, 2)}) {
    EXPECT_EQ(at(sheet, 0, y, x), 200);
    EXPECT_EQ(at(sheet, 0, y, x + 1), 201);
  }
  EXPECT_EQ(std::ranges::count(sheet.pixels, 40), 8 * 10 - 6);
  EXPECT_EQ(contact_sheet(three, 8).shape, Shape({1, 5, 14}));
  EXPECT_THROW(contact_sheet({}, 2), ArgumentError);
  const std::vector<Image> two{three[0], image_of({1, 1, 1}, {0})};
  EXPECT_THAT(message_of<ArgumentError>([&] { contact_sheet(two, 2); }), HasSubstr("differ"));
}

TEST(Pictures, AsPngFilesHaveTheSamePixels) {
  for (const std::int64_t channels : {1, 3}) {
    const Image image = random_image({channels, 5, 7}, 3);
    const std::vector<std::byte> png = io::encode_png(image.pixels, image.shape);
    const Image decoded =
        decode_image({reinterpret_cast<const std::uint8_t*>(png.data()), png.size()}, "picture");
    ASSERT_EQ(decoded.shape, Shape({3, 5, 7}));
    for (std::size_t i = 0; i < decoded.pixels.size(); ++i) {
      ASSERT_EQ(decoded.pixels[i], image.pixels[channels == 3 ? i : i / 3]) << i;
    }
  }
  EXPECT_THROW(io::encode_png({}, {1, 0, 4}), ArgumentError);
  EXPECT_THROW(io::encode_png(Bytes(4), {2, 1, 2}), ArgumentError);
  EXPECT_THROW(io::encode_png(Bytes(3), {1, 2, 2}), ArgumentError);
}

TEST(Pictures, ClassesHaveNamesWhereTheSetKnowsThem) {
  EXPECT_THAT(random_set(2, {1, 2, 2})->class_names(), Each(""));  // none
  ImageTable table{.image_shape = {1, 1, 1},
                   .num_classes = 2,
                   .normalization = grey_normalization(),
                   .pixels = {0},
                   .labels = {1},
                   .class_names = {"a", "b"}};
  const MemoryDataset named(table);
  EXPECT_THAT(named.class_names(), ElementsAre("a", "b"));
  table.class_names.pop_back();
  EXPECT_THAT(message_of<ArgumentError>([&] { MemoryDataset set(table); }),
              HasSubstr("1 names for 2 classes"));
}

}  // namespace
}  // namespace mezzo::data
