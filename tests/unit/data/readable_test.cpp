#include "mezzo/data/readable.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/data/image_folder.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/data/pipeline.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"
#include "tests/unit/threads.h"

namespace mezzo::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Writes twelve pictures of two classes; 2, 3 and 7 are damaged in ways that only reading shows.
void write_pictures(const TempFolder& folder, bool with_bad) {
  for (int i = 0; i < 12; ++i) {
    const std::string name =
        (i < 6 ? "cat/" : "dog/") + std::string(1, static_cast<char>('a' + i)) + ".png";
    const Bytes file = encode_png(random_image({3, 8, 8}, static_cast<std::uint64_t>(i)));
    const bool is_bad = i == 2 || i == 3 || i == 7;
    if (is_bad && !with_bad) continue;
    folder.write(name, is_bad ? Bytes(file.begin(), file.end() - 40) : file);
  }
}

std::string said_by_opening(const TempFolder& folder, std::unique_ptr<Dataset>& set) {
  std::string said;
  logging::set_sink([&said](logging::Topic /*topic*/, std::string_view line) {
    said += std::string(line) + "\n";
  });
  set = without_unreadable(std::make_unique<ImageFolder>(folder.path()));
  logging::set_sink(nullptr);
  return said;
}

struct Epochs {
  std::vector<float> numbers;
  std::vector<std::int64_t> labels;

  bool operator==(const Epochs&) const = default;
};

// The batches of two epochs from `from` on, shuffled.
Epochs epochs_of(const Dataset& set, LoaderOptions options, LoaderPosition from = {}) {
  const auto mapped = map(set, {RandomResizedCrop{.height = 4, .width = 4}});
  options.batch_size = 2;
  options.seed = 3;
  DataLoader loader(*mapped, options);
  loader.seek(from);
  Epochs seen;
  Batch batch;
  while (loader.position().epoch < 2) {
    if (!loader.next(batch)) continue;
    for (const float number : batch.images.to_vector<float>()) seen.numbers.push_back(number);
    for (const auto label : batch.labels.to_vector<std::int64_t>()) seen.labels.push_back(label);
  }
  return seen;
}

TEST(WithoutUnreadable, IsTheSetOfTheOthers) {
  const TempFolder folder;
  write_pictures(folder, true);
  const TempFolder clean;
  write_pictures(clean, false);
  std::unique_ptr<Dataset> set;
  const std::string said = said_by_opening(folder, set);
  EXPECT_EQ(said, "[images] 3 of 12 images cannot be read: " + folder.path("cat/c.png") +
                      " (image 2), " + folder.path("cat/d.png") + " (image 3), " +
                      folder.path("dog/h.png") + " (image 7). They are skipped\n");
  ASSERT_EQ(set->size(), 9);
  EXPECT_EQ(set->left_out().size(), 3U);
  EXPECT_THAT(set->left_out()[0].why, HasSubstr("cat/c.png (image 2): the PNG data is damaged"));
  EXPECT_EQ(set->describe(2), folder.path("cat/e.png") + " (image 4)");
  EXPECT_EQ(set->label(4), 1);
  EXPECT_EQ(set->format(0), "PNG");
  const ImageFolder good(clean.path());
  const Epochs expected = epochs_of(good, {.workers = 0});
  for (const std::int64_t workers : {0, 1, 3}) {
    EXPECT_EQ(epochs_of(*set, {.workers = workers}), expected) << workers;
  }
}

TEST(WithoutUnreadable, IsTheSameForAnyNumberOfThreadsAndAfterARestart) {
  const TempFolder folder;
  write_pictures(folder, true);
  const LoaderPosition middle{0, 3};
  const auto open_with = [&](int threads) {
    const test::Threads use(threads);
    return without_unreadable(std::make_unique<ImageFolder>(folder.path()));
  };
  const auto set = open_with(1);
  const Epochs rest = epochs_of(*set, {.workers = 0}, middle);
  for (const int threads : {2, 5}) {
    const auto again = open_with(threads);
    EXPECT_EQ(again->size(), set->size());
    EXPECT_EQ(epochs_of(*again, {.workers = 2}, middle), rest) << threads;
  }
}

TEST(WithoutUnreadable, ShardsHaveTheImagesOfOneLoader) {
  const TempFolder folder;
  write_pictures(folder, true);
  const auto set = without_unreadable(std::make_unique<ImageFolder>(folder.path()));
  const auto mapped = map(*set, {Resize{.height = 4, .width = 4}});
  DataLoader whole(*mapped, {.batch_size = 4, .workers = 0});
  DataLoader first(*mapped, {.batch_size = 2, .workers = 0, .shard = {0, 2}});
  DataLoader second(*mapped, {.batch_size = 2, .workers = 0, .shard = {1, 2}});
  Batch all, one, two;
  ASSERT_TRUE(whole.next(all) && first.next(one) && second.next(two));
  one.indices.insert(one.indices.end(), two.indices.begin(), two.indices.end());
  EXPECT_EQ(one.indices, all.indices);
}

TEST(WithoutUnreadable, ChangesNothingWhereAllCanBeRead) {
  const TempFolder folder;
  write_pictures(folder, false);
  std::unique_ptr<Dataset> set;
  EXPECT_EQ(said_by_opening(folder, set), "");
  EXPECT_NE(dynamic_cast<ImageFolder*>(set.get()), nullptr);
  EXPECT_TRUE(set->left_out().empty());
}

TEST(WithoutUnreadable, NeedsOneImage) {
  const TempFolder folder;
  folder.write("cat/a.png", {1, 2, 3});
  folder.write("cat/b.png", {});
  EXPECT_THAT(message_of<FileError>(
                  [&] { without_unreadable(std::make_unique<ImageFolder>(folder.path())); }),
              AllOf(HasSubstr("[images] none of 2 images can be read. The first one is "),
                    Not(HasSubstr("is [images]"))));
}

TEST(WithoutUnreadable, SpeaksOfOneImage) {
  const TempFolder folder;
  write_pictures(folder, false);
  folder.write("dog/z.png", {1, 2, 3});
  std::unique_ptr<Dataset> set;
  EXPECT_THAT(said_by_opening(folder, set), HasSubstr("(image 9). It is skipped\n"));
}

TEST(WithoutUnreadable, LosesNoClass) {
  const TempFolder folder;
  write_pictures(folder, false);
  folder.write("eel/a.png", {1, 2, 3});
  folder.write("eel/b.png", {});
  const auto open_with = [&](bool allow_empty) {
    return without_unreadable(std::make_unique<ImageFolder>(folder.path()), allow_empty);
  };
  EXPECT_THAT(message_of<FileError>([&] { open_with(false); }),
              HasSubstr("[images] no image can be read of 1 of 3 classes: eel. "));
  EXPECT_EQ(open_with(true)->size(), 9);
}

TEST(OpenDataset, SkipsBadImagesIfAskedTo) {
  const TempFolder folder;
  write_pictures(folder, true);
  const std::string spec = "images:" + folder.path();
  const auto set = open_dataset(spec, Split::kTest, {.bad_images = BadImages::kSkip});
  EXPECT_EQ(set->size(), 9);
  EXPECT_EQ(set->left_out().size(), 3U);
  EXPECT_EQ(open_dataset(spec, Split::kTest)->size(), 12);
}

}  // namespace
}  // namespace mezzo::data
