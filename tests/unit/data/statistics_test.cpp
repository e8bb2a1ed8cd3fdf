#include "mezzo/data/statistics.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/image_folder.h"
#include "mezzo/data/open.h"
#include "tests/unit/data/encode.h"
#include "tests/unit/data/images.h"
#include "tests/unit/threads.h"

namespace mezzo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Statistics, AreThoseOfAllPixels) {
  const auto set = random_set(23, {3, 5, 7});
  const DatasetStatistics found = statistics_of(*set);
  EXPECT_THAT(found.class_counts, ElementsAre(3, 3, 3, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_EQ(found.examined, 23);
  EXPECT_EQ(found.heights, (Spread{5, 5, 5}));
  EXPECT_EQ(found.widths, (Spread{7, 7, 7}));
  EXPECT_TRUE(found.formats.empty());
  EXPECT_TRUE(found.unreadable.empty());
  for (std::size_t c = 0; c < 3; ++c) {
    // Computed in two passes, in long double.
    std::vector<std::uint8_t> pixels(105);
    std::vector<long double> numbers;
    Generator random;
    for (std::int64_t i = 0; i < 23; ++i) {
      set->read(i, random, pixels);
      for (std::size_t k = c; k < pixels.size(); k += 3) numbers.push_back(pixels[k] / 255.0L);
    }
    long double mean = 0;
    for (const long double number : numbers)
      mean += number / static_cast<long double>(numbers.size());
    long double variance = 0;
    for (const long double number : numbers) {
      variance += (number - mean) * (number - mean) / static_cast<long double>(numbers.size());
    }
    // Rounded to f32 once.
    EXPECT_FLOAT_EQ(found.normalization.mean[c], static_cast<float>(mean));
    EXPECT_FLOAT_EQ(found.normalization.deviation[c], static_cast<float>(std::sqrt(variance)));
  }
}

TEST(Statistics, AreTheSameForAnyNumberOfThreads) {
  const auto set = random_set(50, {3, 9, 9});
  const auto with = [&](int threads) {
    const test::Threads use(threads);
    return statistics_of(*set);
  };
  const DatasetStatistics one = with(1);
  for (const int threads : {2, 7}) EXPECT_EQ(with(threads).normalization, one.normalization);
}

void write_folder(const TempFolder& folder) {
  folder.write("cat/a.png", encode_png(random_image({3, 4, 10}, 1)));
  folder.write("cat/b.jpg", encode_jpeg(random_image({3, 6, 20}, 2)));
  folder.write("cat/c.jpg", encode_jpeg(random_image({3, 8, 30}, 3)));
  folder.write("dog/d.jpg", {'n', 'o'});
  // The contents are JPEG, whatever the name says.
  folder.write("dog/e.png", encode_jpeg(random_image({3, 100, 5}, 4)));
}

TEST(Statistics, NameSizesFormatsAndUnreadableFiles) {
  const TempFolder folder;
  write_folder(folder);
  const DatasetStatistics found = statistics_of(ImageFolder(folder.path()));
  EXPECT_THAT(found.class_counts, ElementsAre(3, 2)) << "of all files";
  EXPECT_EQ(found.heights, (Spread{4, 6, 100})) << "the lower one of two in the middle";
  EXPECT_EQ(found.widths, (Spread{5, 10, 30}));
  EXPECT_THAT(found.formats, ElementsAre(Pair("JPEG", 3), Pair("PNG", 1)));
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_EQ(found.unreadable[0].name, folder.path("dog/d.jpg") + " (image 3)");
  EXPECT_THAT(found.unreadable[0].why, HasSubstr("neither a JPEG nor a PNG file"));
}

TEST(Statistics, CanBeLimited) {
  const TempFolder folder;
  write_folder(folder);
  const ImageFolder set(folder.path());
  const DatasetStatistics found = statistics_of(set, {.limit = 2});
  EXPECT_EQ(found.examined, 2);
  EXPECT_THAT(found.class_counts, ElementsAre(3, 2)) << "still of all";
  const std::vector<std::int64_t> heights{4, 6, 8, 0, 100};
  const std::vector<std::int64_t> chosen = evenly_spread(5, 2);
  ASSERT_NE(chosen[1], 3) << "the one that cannot be read";
  EXPECT_EQ(found.heights.least, heights[static_cast<std::size_t>(chosen[0])]);
  EXPECT_EQ(found.heights.most, heights[static_cast<std::size_t>(chosen[1])]);
  EXPECT_THROW(statistics_of(set, {.limit = 0}), ArgumentError);
  EXPECT_EQ(statistics_of(set, {.limit = 100}).examined, 5);
}

TEST(Statistics, NeedAnImageThatCanBeRead) {
  const TempFolder folder;
  folder.write("cat/a.png", {1, 2});
  EXPECT_THAT(message_of<FileError>([&] { statistics_of(ImageFolder(folder.path())); }),
              HasSubstr("[data] none of 1 images can be read"));
}

TEST(EvenlySpread, TakesOneOfEachPart) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : {std::int64_t{10}, std::int64_t{1003}, most}) {
    const std::vector<std::int64_t> indices = evenly_spread(size, 5);
    ASSERT_EQ(indices.size(), 5U);
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::int64_t index = indices[static_cast<std::size_t>(i)];
      EXPECT_GE(index, size / 5 * i);
      EXPECT_LT(index - size / 5 * i, size / 5 + 5);
    }
    EXPECT_EQ(evenly_spread(size, 5), indices) << "the same every time";
  }
  EXPECT_THAT(evenly_spread(3, 9), ElementsAre(0, 1, 2));
}

// The generated sets' ten classes alternate.
TEST(EvenlySpread, SeesAllClassesThatTakeTurns) {
  std::set<std::int64_t> classes;
  for (const std::int64_t index : evenly_spread(10'000, 100)) classes.insert(index % 10);
  EXPECT_EQ(classes.size(), 10U);
}

TEST(NormalizationText, CanBePasted) {
  EXPECT_EQ(text_of(cifar10_normalization()),
            "{.mean = {0.4914F, 0.4822F, 0.4465F}, .deviation = {0.2023F, 0.1994F, 0.2010F}}");
  EXPECT_EQ(text_of(grey_normalization()), "{.mean = {0.1307F}, .deviation = {0.3081F}}");
}

}  // namespace
}  // namespace mezzo::data
