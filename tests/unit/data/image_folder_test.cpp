#include "mezzo/data/image_folder.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A PNG picture of one colour.
Bytes plain_png(std::uint8_t value, std::int64_t height = 4, std::int64_t width = 6) {
  Image image;
  image.reshape({3, height, width});
  std::ranges::fill(image.pixels, value);
  return encode_png(image);
}

// Writes two classes, with files around them that are not pictures.
void write_classes(const TempFolder& folder, const std::string& prefix) {
  folder.write(prefix + "dog/b.PNG", plain_png(30));
  folder.write(prefix + "dog/a.jpeg", encode_jpeg(random_image({3, 5, 3}, 1)));
  folder.write(prefix + "cat/deep/er/z.png", plain_png(20));
  folder.write(prefix + "cat/x10.png", plain_png(11));
  folder.write(prefix + "cat/x1.png", plain_png(10, 9, 2));
  folder.write(prefix + "cat/notes.txt", {1, 2, 3});
  folder.write(prefix + "loose.png", plain_png(1));
}

std::vector<std::string> paths_of(const ImageFolder& set, const std::string& folder) {
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    paths.push_back(std::filesystem::path(set.path(i)).lexically_relative(folder).string());
  }
  return paths;
}

TEST(ImageFolder, ListsPicturesByClassAndName) {
  const TempFolder folder;
  write_classes(folder, "");
  const ImageFolder set(folder.path());
  EXPECT_THAT(set.class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(
      paths_of(set, folder.path()),
      ElementsAre("cat/x1.png", "cat/x10.png", "cat/deep/er/z.png", "dog/a.jpeg", "dog/b.PNG"));
  EXPECT_EQ(set.num_classes(), 2);
  EXPECT_EQ(set.image_shape(), Shape({3, 0, 0}));
  EXPECT_EQ(set.normalization(), imagenet_normalization());
  EXPECT_EQ(set.normalization(),
            (Normalization{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}));
  Generator random;
  Image image;
  EXPECT_EQ(set.read_image(0, random, image), 0);
  EXPECT_EQ(image.shape, Shape({3, 9, 2}));
  EXPECT_EQ(image.pixels, Bytes(54, 10));
  EXPECT_EQ(set.read_image(4, random, image), 1);
  EXPECT_EQ(image.pixels, Bytes(72, 30));
  EXPECT_THROW(set.read(0, random, image.pixels), ArgumentError);
}

TEST(ImageFolder, BrokenPicturesAreNamedWithTheirIndex) {
  const TempFolder folder;
  write_classes(folder, "");
  const Bytes cut = plain_png(3);
  folder.write("cat/x10.png", {cut.begin(), cut.end() - 30});
  const ImageFolder set(folder.path());
  const auto mapped = map(set, {Resize{.height = 8, .width = 8}});
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(*mapped, {.batch_size = 5, .shuffle = true, .workers = workers});
    Batch batch;
    EXPECT_THAT(message_of<FileError>([&] { loader.next(batch); }),
                StartsWith("[images] " + folder.path("cat/x10.png") +
                           " (image 1): the PNG data is damaged"));
  }
  folder.write("dog/a.jpeg", {'h', 'e', 'l', 'l', 'o'});
  Generator random;
  Image image;
  EXPECT_THAT(message_of<FileError>([&] { mapped->read_image(3, random, image); }),
              HasSubstr("dog/a.jpeg (image 3): neither a JPEG nor a PNG file"));
  std::filesystem::remove(folder.path("dog/b.PNG"));
  EXPECT_THAT(message_of<FileError>([&] { mapped->read_image(4, random, image); }),
              HasSubstr("dog/b.PNG (image 4): cannot be read"));
}

std::string error_of(const TempFolder& folder, Split split = Split::kTrain) {
  return message_of<FileError>([&] { open_images(folder.path(), split); });
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(message_of<FileError>([&] { open_images(folder.path("none"), Split::kTest); }),
            "[images] " + folder.path("none") + ": there is no such folder. Check the path");
  folder.write("picture.png", plain_png(1));
  EXPECT_EQ(error_of(folder), "[images] " + folder.path() +
                                  ": there are no class folders in it. Pictures belong in "
                                  "a folder per class: " +
                                  folder.path("CLASS/PICTURE.jpg"));
  folder.write("cat/picture.png", plain_png(1));
  folder.write("dog/notes.txt", {1});
  EXPECT_EQ(error_of(folder), "[images] " + folder.path("dog") +
                                  ": there are no pictures in this class: no file ends "
                                  "in .jpg, .jpeg or .png. Add some or remove the folder");
}

// All log lines from opening a set.
template <class Open>
std::string said_by(const Open& open) {
  std::string said;
  logging::set_sink([&said](logging::Topic /*topic*/, std::string_view line) {
    said += std::string(line) + "\n";
  });
  open();
  logging::set_sink(nullptr);
  return said;
}

TEST(ImageFolder, PassesOverWhatIsHiddenWithOneLine) {
  const TempFolder folder;
  write_classes(folder, "");
  for (const char* name : {"cat/._x1.png", "cat/._x10.png", "cat/deep/._z.jpg", "._loose.png"}) {
    folder.write(name, {0, 5, 22, 7});  // as macOS writes them, not pictures
  }
  folder.write(".ipynb_checkpoints/x1-checkpoint.png", plain_png(1));
  folder.write("dog/.cache/thumbnail.png", plain_png(1));
  folder.write("dog/.DS_Store", {1});  // skipped, since its name is not that of a picture
  std::vector<std::string> paths;
  const std::string said = said_by([&] {
    const ImageFolder set(folder.path());
    EXPECT_THAT(set.class_names(), ElementsAre("cat", "dog"));
    paths = paths_of(set, folder.path());
  });
  EXPECT_THAT(paths, ElementsAre("cat/x1.png", "cat/x10.png", "cat/deep/er/z.png", "dog/a.jpeg",
                                 "dog/b.PNG"));
  EXPECT_THAT(said, HasSubstr("[images] " + folder.path() +
                              ": 5 hidden files or folders are skipped, the first one is " +
                              folder.path(".ipynb_checkpoints")));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
}

TEST(ImageFolder, MayBeAllowedClassesWithoutPictures) {
  const TempFolder folder;
  write_classes(folder, "");
  std::filesystem::create_directories(folder.path("bird"));
  EXPECT_THROW(ImageFolder(folder.path()), FileError);
  const std::string said = said_by([&] {
    const ImageFolder set(folder.path(), {.allow_empty = true});
    EXPECT_THAT(set.class_names(), ElementsAre("bird", "cat", "dog"));
    EXPECT_EQ(set.label(0), 1);
  });
  EXPECT_THAT(said, HasSubstr("there are no pictures of 1 of 3 classes: bird"));
}

// It does not matter whether the folder of a class is empty or missing.
TEST(OpenImages, TestSetsMayLackAClassAndTrainingSetsMayNot) {
  for (const bool has_folder : {true, false}) {
    const TempFolder folder;
    write_classes(folder, "train/");
    folder.write("val/dog/only.png", plain_png(7));
    if (has_folder) std::filesystem::create_directories(folder.path("val/cat"));
    const std::string said = said_by([&] {
      const auto test = open_images(folder.path(), Split::kTest);
      EXPECT_EQ(test->size(), 1);
      EXPECT_EQ(test->label(0), 1);
    });
    EXPECT_THAT(said, HasSubstr("[images] " + folder.path("val") +
                                ": there are no pictures of 1 of 2 classes: cat"));
    folder.write("val/fox/a.png", plain_png(7));
    if (has_folder) std::filesystem::create_directories(folder.path("train/fox"));
    const std::string refused = has_folder ? error_of(folder) : error_of(folder, Split::kTest);
    EXPECT_THAT(refused, HasSubstr("fox: "));
  }
  const TempFolder folder;
  write_classes(folder, "train/");
  std::filesystem::create_directories(folder.path("val/dog"));
  EXPECT_EQ(error_of(folder, Split::kTest),
            "[images] " + folder.path("val") +
                ": there are no pictures in its folders: no file ends in .jpg, .jpeg or .png. "
                "Add some");
}

TEST(OpenImages, HiddenFoldersAreNoClassesOfTestSetsEither) {
  const TempFolder folder;
  write_classes(folder, "train/");
  folder.write("train/.hidden/a.png", plain_png(7));
  folder.write("val/dog/only.png", plain_png(7));
  folder.write("val/.ipynb_checkpoints/only.png", plain_png(7));
  EXPECT_EQ(open_images(folder.path(), Split::kTest)->num_classes(), 2);
  EXPECT_EQ(open_images(folder.path(), Split::kTrain)->num_classes(), 2);
}

TEST(OpenImages, KnowsTrainAndValOrTest) {
  for (const std::string name : {"val", "test"}) {
    const TempFolder folder;
    write_classes(folder, "train/");
    folder.write(name + "/dog/only.png", plain_png(7));
    EXPECT_EQ(open_images(folder.path(), Split::kTrain)->size(), 5);
    const auto test = open_images(folder.path(), Split::kTest);
    EXPECT_EQ(test->size(), 1);
    EXPECT_EQ(test->num_classes(), 2);
    Generator random;
    Image image;
    EXPECT_EQ(test->read_image(0, random, image), 1);  // as in training
    EXPECT_EQ(test->describe(0), folder.path(name + "/dog/only.png") + " (image 0)");
  }
}

TEST(OpenImages, ValComesBeforeTest) {
  const TempFolder folder;
  for (const std::string name : {"train", "test", "val"}) {
    folder.write(name + "/dog/a.png", plain_png(7));
  }
  EXPECT_EQ(open_images(folder.path(), Split::kTest)->describe(0),
            folder.path("val/dog/a.png") + " (image 0)");
}

TEST(OpenImages, TrainAndTestMustFit) {
  const TempFolder folder;
  write_classes(folder, "train/");
  EXPECT_EQ(error_of(folder, Split::kTest),
            "[images] " + folder.path() +
                ": there is a folder train, but neither val nor test. Put "
                "the pictures to test with into " +
                folder.path("val"));
  folder.write("val/fox/a.png", plain_png(7));
  EXPECT_EQ(error_of(folder, Split::kTest),
            "[images] " + folder.path("val/fox") +
                ": no such class is in the training set, which has cat, dog. Training and test "
                "pictures must have the same classes");
  std::filesystem::remove_all(folder.path("train"));
  EXPECT_EQ(open_images(folder.path(), Split::kTest)->num_classes(), 1);
  EXPECT_THAT(error_of(folder), HasSubstr("train: there is no such folder"));
}

TEST(OpenImages, WithoutSplitsBothAreTheSameAndThatIsSaid) {
  const TempFolder folder;
  write_classes(folder, "");
  std::string said;
  logging::set_sink([&said](logging::Topic /*topic*/, std::string_view line) { said += line; });
  EXPECT_EQ(open_images(folder.path(), Split::kTest)->size(), 5);
  EXPECT_EQ(said, "");
  EXPECT_EQ(open_images(folder.path(), Split::kTrain)->size(), 5);
  logging::set_sink(nullptr);
  EXPECT_THAT(said, HasSubstr("the same pictures are used for training and testing"));
}

}  // namespace
}  // namespace mezzo::data
