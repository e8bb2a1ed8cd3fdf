#include "mezzo/data/open.h"

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/cifar10.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/image_folder.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

// The images of a batch of the first examples of `set`.
std::vector<float> first_batch(const Dataset& set) {
  DataLoader loader(set, {.batch_size = 8, .shuffle = false, .seed = 3});
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  return batch.images.to_vector<float>();
}

// Writes eight training and two test images.
void write_cifar10(const TempFolder& folder) {
  const auto records = [](std::int64_t count, std::uint64_t seed) {
    Bytes bytes = random_image({3073, 1, count}, seed).pixels;
    for (std::size_t i = 0; i < bytes.size(); i += 3073) bytes[i] %= 10;
    return bytes;
  };
  for (int i = 1; i <= 5; ++i) {
    folder.write(concat("train/data_batch_", i, ".bin"), records(i == 1 ? 4 : 1, 10 + i));
  }
  folder.write("test/test_batch.bin", records(2, 20));
}

TEST(OpenDataset, OpensByName) {
  EXPECT_EQ(open_dataset("digits", Split::kTest)->image_shape(), Shape({1, 28, 28}));
  EXPECT_EQ(open_dataset("shapes", Split::kTest)->image_shape(), Shape({3, 32, 32}));
  EXPECT_THROW(open_dataset("mnist:/no/such", Split::kTest), FileError);
  EXPECT_THROW(open_dataset("cifar10:/no/such", Split::kTest), FileError);
  EXPECT_THROW(open_dataset("images:/no/such", Split::kTest), FileError);
}

TEST(OpenDataset, SaysWhatExists) {
  const auto error_of = [](std::string_view spec) {
    return message_of<ArgumentError>([&] { open_dataset(spec, Split::kTrain); });
  };
  EXPECT_EQ(error_of("imagenet"),
            "[data] no such data set: `imagenet`. Known data sets are digits, shapes, mnist:DIR, "
            "cifar10:DIR, images:DIR");
  EXPECT_THAT(error_of(""), ::testing::HasSubstr("no such data set: ``"));
  EXPECT_EQ(error_of("mnist"),
            "[data] mnist needs the folder of its files: mnist. Write mnist:DIR");
  EXPECT_EQ(error_of("cifar10:"),
            "[data] cifar10 needs the folder of its files: cifar10:. Write cifar10:DIR");
  EXPECT_EQ(error_of("digits:x"),
            "[data] digits is built in and has no folder: digits:x. Write digits");
}

TEST(OpenDataset, Cifar10IsCroppedFlippedAndStretchedWhereAskedFor) {
  const TempFolder folder;
  write_cifar10(folder);
  const std::string spec = "cifar10:" + folder.path();
  const auto train = open_cifar10(folder.path(), Split::kTrain);
  const auto test = open_cifar10(folder.path(), Split::kTest);
  const Transform crop = RandomCrop{.height = 32, .width = 32, .padding = 4};
  const Transform resize = Resize{.height = 48, .width = 48};
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain)), first_batch(*train));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain, {.image_size = 32})),
            first_batch(*train));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain, {.augment = true})),
            first_batch(*map(*train, {crop, RandomHorizontalFlip{}})));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain, {.image_size = 48, .augment = true})),
            first_batch(*map(*train, {crop, RandomHorizontalFlip{}, resize})));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTest, {.image_size = 48, .augment = true})),
            first_batch(*map(*test, {resize})));
  EXPECT_NE(first_batch(*open_dataset(spec, Split::kTrain, {.augment = true})),
            first_batch(*train));
}

TEST(OpenDataset, OtherSetsAreStretchedButNeverAugmented) {
  const auto plain = open_digits(Split::kTrain, 8);
  EXPECT_EQ(first_batch(*open_dataset("digits", Split::kTrain, {.augment = true})),
            first_batch(*plain));
  EXPECT_EQ(
      first_batch(*open_dataset("digits", Split::kTrain, {.image_size = 32, .augment = true})),
      first_batch(*map(*plain, {Resize{.height = 32, .width = 32}})));
}

TEST(OpenDataset, ImagesOfOneSizeThatAreNotSquareAreStretched) {
  const TempFolder folder;
  for (const std::uint8_t height : {2, 3}) {
    const std::uint8_t width = height == 2 ? 3 : 2;
    folder.write("t10k-images-idx3-ubyte",
                 {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, height, 0, 0, 0, width, 9, 9, 9, 9, 9, 9});
    folder.write("t10k-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, 7});
    const std::string spec = "mnist:" + folder.path();
    EXPECT_EQ(open_dataset(spec, Split::kTest)->image_shape(), Shape({1, height, width}));
    for (const std::int64_t size : {2, 3}) {
      EXPECT_EQ(open_dataset(spec, Split::kTest, {.image_size = size})->image_shape(),
                Shape({1, size, size}));
    }
  }
}

TEST(OpenDataset, PicturesAreCutToOneSize) {
  const TempFolder folder;
  for (int i = 0; i < 8; ++i) {
    folder.write(concat("train/c/", i, ".png"), encode_png(random_image({3, 30, 20 + i}, 1)));
  }
  folder.write("val/c/0.png", encode_png(random_image({3, 20, 40}, 2)));
  const std::string spec = "images:" + folder.path();
  EXPECT_EQ(open_dataset(spec, Split::kTrain)->image_shape(), Shape({3, 224, 224}));
  const ImageFolder train(folder.path("train"));
  const ImageFolder test(folder.path("val"));
  const std::vector<Transform> exact{ResizeShortSide{.size = 64},
                                     CenterCrop{.height = 56, .width = 56}};
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain, {.image_size = 56})),
            first_batch(*map(train, exact)));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTest, {.image_size = 56, .augment = true})),
            first_batch(*map(test, exact)));
  // 256/224 of 53 is 60.6.
  const auto odd = open_dataset(spec, Split::kTest, {.image_size = 53});
  EXPECT_EQ(first_batch(*odd), first_batch(*map(test, {ResizeShortSide{.size = 61},
                                                       CenterCrop{.height = 53, .width = 53}})));
  EXPECT_EQ(first_batch(*open_dataset(spec, Split::kTrain, {.image_size = 56, .augment = true})),
            first_batch(*map(
                train, {RandomResizedCrop{.height = 56, .width = 56}, RandomHorizontalFlip{}})));
}

TEST(IsFileOf, AsksForThePlaceAndTheEnding) {
  const TempFolder folder;
  const auto is_file = [&](const std::string& kind, const std::string& path) {
    return is_file_of(kind + folder.path(), folder.path(path));
  };
  EXPECT_TRUE(is_file("mnist:", "train-images-idx3-ubyte"));
  EXPECT_TRUE(is_file("mnist:", "./t10k-labels-idx1-ubyte.gz"));
  EXPECT_TRUE(is_file("cifar10:", "test/test_batch.bin"));
  EXPECT_TRUE(is_file("images:", "train/new_class/1.JPG"));
  EXPECT_FALSE(is_file("images:", "weights.safetensors"));
  EXPECT_FALSE(is_file("cifar10:", "1.png"));
  EXPECT_FALSE(is_file("images:", "../1.png"));
  EXPECT_FALSE(is_file("digits", "1.png"));
  EXPECT_FALSE(is_file("none:", "1.png"));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_TRUE(is_file_of("images:.", "1.png"));
  EXPECT_TRUE(is_file_of("images:" + folder.path(), "./1.png"));
  EXPECT_FALSE(is_file_of("images:val", "1.png"));
  std::filesystem::current_path(before);
}

TEST(OpenDataset, RefusesImpossibleSizes) {
  for (const std::int64_t size : {-1, 4097}) {
    EXPECT_EQ(message_of<ArgumentError>(
                  [&] { open_dataset("digits", Split::kTrain, {.image_size = size}); }),
              concat("[data] the image size must be from 1 to 4096: ", size));
  }
}

}  // namespace
}  // namespace mezzo::data
