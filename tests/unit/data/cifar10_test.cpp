#include "mezzo/data/cifar10.h"

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kPlane = 1024;

// A record whose red, green and blue planes are `base`, `base + 1` and `base + 2`, except that the
// first pixels of red count up.
void append_record(Bytes& bytes, std::uint8_t label, std::uint8_t base) {
  bytes.push_back(label);
  const std::size_t first = bytes.size();
  for (std::uint8_t plane = 0; plane < 3; ++plane) {
    bytes.insert(bytes.end(), kPlane, static_cast<std::uint8_t>(base + plane));
  }
  for (std::uint8_t i = 0; i < 40; ++i) bytes[first + i] = i;
}

Bytes one_record(std::uint8_t label, std::uint8_t base) {
  Bytes bytes;
  append_record(bytes, label, base);
  return bytes;
}

// Writes the six files, batch i with one record of label i; those of a split with the given prefix.
void write_set(const TempFolder& folder, const std::string& train, const std::string& test) {
  for (std::uint8_t i = 1; i <= 5; ++i) {
    folder.write(train + "data_batch_" + std::to_string(i) + ".bin",
                 one_record(i, static_cast<std::uint8_t>(10 * i)));
  }
  Bytes bytes;
  append_record(bytes, 8, 100);
  append_record(bytes, 9, 200);
  folder.write(test + "test_batch.bin", bytes);
}

TEST(Cifar10, ReadsBothLayoutsInFileOrder) {
  for (const bool flat : {false, true}) {
    const TempFolder folder;
    write_set(folder, flat ? "" : "train/", flat ? "" : "test/");
    const auto train = open_cifar10(folder.path(), Split::kTrain);
    ASSERT_EQ(train->size(), 5);
    EXPECT_EQ(train->image_shape(), Shape({3, 32, 32}));
    EXPECT_EQ(train->num_classes(), 10);
    EXPECT_EQ(train->normalization(), cifar10_normalization());
    Generator random;
    Bytes pixels(3 * kPlane);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(train->read(i, random, pixels), i + 1);
    EXPECT_EQ(Bytes(pixels.begin(), pixels.begin() + 6), Bytes({0, 51, 52, 1, 51, 52}));
    // The red of pixels 39 and 40, in the second row.
    EXPECT_EQ(pixels[117], 39);
    EXPECT_EQ(pixels[120], 50);
    const auto test = open_cifar10(folder.path(), Split::kTest);
    EXPECT_EQ(test->size(), 2);
    EXPECT_EQ(test->read(1, random, pixels), 9);
    EXPECT_EQ(pixels.back(), 202);
  }
}

std::string cifar10_error(const TempFolder& folder, Split split) {
  return message_of<FileError>([&] { open_cifar10(folder.path(), split); });
}

TEST(Cifar10, NamesEveryMissingBatch) {
  const TempFolder folder;
  write_set(folder, "train/", "");
  std::filesystem::remove(folder.path("train/data_batch_2.bin"));
  std::filesystem::remove(folder.path("train/data_batch_5.bin"));
  EXPECT_THAT(cifar10_error(folder, Split::kTrain),
              StartsWith("[cifar10] " + folder.path("train") +
                         ": files are missing: data_batch_2.bin, data_batch_5.bin. "));
  EXPECT_EQ(message_of<FileError>([&] { open_cifar10(folder.path("none"), Split::kTest); }),
            "[cifar10] " + folder.path("none") + ": there is no such folder. Check the path");
}

TEST(Cifar10, FilesMustBeWholeRecords) {
  const TempFolder folder;
  for (const std::size_t size : {std::size_t{0}, std::size_t{3072}, std::size_t{3074}}) {
    folder.write("test_batch.bin", Bytes(size));
    EXPECT_THAT(cifar10_error(folder, Split::kTest),
                HasSubstr("not whole records: " + std::to_string(size) +
                          " bytes, expected a multiple of 3073"));
  }
}

TEST(Cifar10, LabelsMustBeClasses) {
  const TempFolder folder;
  Bytes bytes = one_record(9, 0);
  append_record(bytes, 10, 0);
  folder.write("test_batch.bin", bytes);
  EXPECT_THAT(cifar10_error(folder, Split::kTest),
              StartsWith("[cifar10] " + folder.path("test_batch.bin") +
                         ": label 1 is out of range: 10, expected 0 to 9"));
}

}  // namespace
}  // namespace mezzo::data
