// Tests subsets and random splits.
#include "mezzo/data/split.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/data/rows.h"
#include "mezzo/data/transforms.h"
#include "tests/unit/data/batches.h"
#include "tests/unit/data/small_set.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Subset, IsASetOfTheseImages) {
  const Subset set(small_set(20), {13, 2, 2});
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.num_classes(), 10);
  EXPECT_EQ(labels_of(set), (Rows{3, 2, 2}));
  EXPECT_EQ(set.describe(0), "image 13");
  DataLoader loader(set, {.batch_size = 3, .shuffle = false});
  const auto source = small_set(20);
  Generator random;
  Image image;
  Image expected;
  EXPECT_EQ(set.read_image(0, random, image), 3);
  source->read_image(13, random, expected);
  EXPECT_EQ(image.pixels, expected.pixels);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), (Rows{3, 2, 2}));
}

TEST(Subset, RefusesWhatIsNotThere) {
  const auto source = small_set(4);
  EXPECT_EQ(message_of<ArgumentError>([&] { const Subset set(*source, {}); }),
            "[Subset] there are no indices. Give at least one");
  EXPECT_EQ(message_of<ArgumentError>([&] {
              const Subset set(*source, {0, 4});
            }),
            "[Subset] there is no image 4 in a set of 4. Indices count from 0");
  EXPECT_THAT(message_of<ArgumentError>([&] { const Subset set(*source, {-1}); }),
              HasSubstr("no image -1"));
  EXPECT_THAT(message_of<ArgumentError>([&] { const Subset set(std::unique_ptr<Dataset>(), {0}); }),
              HasSubstr("the data set is null"));
}

void expect_whole(const std::vector<Rows>& parts, std::int64_t size) {
  for (const Rows& part : parts) EXPECT_TRUE(std::ranges::is_sorted(part));
  Rows all = joined(parts);
  std::ranges::sort(all);
  EXPECT_EQ(all, row_numbers(size).to_vector<std::int64_t>());
}

Rows sizes_of(const std::vector<Rows>& parts) {
  Rows sizes;
  for (const Rows& part : parts) sizes.push_back(std::ssize(part));
  return sizes;
}

TEST(Split, PartsShareNothingAndLeaveNothingOut) {
  for (const bool stratify : {false, true}) {
    for (const std::int64_t size : {4, 10, 101}) {
      Rows labels;
      for (std::int64_t i = 0; i < size; ++i) labels.push_back(i * i % 3);
      const auto parts = split_indices(
          size, {.fractions = {0.5, 0.25, 0.25}, .seed = 4, .stratify = stratify}, labels);
      expect_whole(parts, size);
    }
  }
}

// The sizes are those of torch.utils.data.random_split: rounded down, with the remainder to the
// first parts.
TEST(Split, HasTheSizesOfPyTorch) {
  const auto sizes = [](std::int64_t size, const std::vector<double>& fractions) {
    return sizes_of(split_indices(size, {.fractions = fractions}));
  };
  EXPECT_EQ(sizes(10, {0.8, 0.2}), (Rows{8, 2}));
  EXPECT_EQ(sizes(101, {0.5, 0.25, 0.25}), (Rows{51, 25, 25}));
  EXPECT_EQ(sizes(11, {0.3, 0.3, 0.4}), (Rows{4, 3, 4}));
  EXPECT_EQ(sizes(10, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}), Rows(10, 1));
  EXPECT_EQ(sizes_of(split_indices(10, {.counts = {1, 7, 2}})), (Rows{1, 7, 2}));
}

TEST(Split, IsAFunctionOfTheSeed) {
  const SplitOptions options{.fractions = {0.5, 0.5}, .seed = 7};
  EXPECT_EQ(split_indices(50, options), split_indices(50, options));
  SplitOptions other = options;
  other.seed = 8;
  EXPECT_NE(split_indices(50, other), split_indices(50, options));
  Rows first_half = row_numbers(25).to_vector<std::int64_t>();
  EXPECT_NE(split_indices(50, options)[0], first_half);
}

// Of a class with c examples, each of two parts gets its fraction of c, give or take one.
TEST(Split, StratifiedPartsHaveTheirShareOfEachClass) {
  Rows labels(600, 0);
  for (std::size_t i = 0; i < 90; ++i) labels[7 * i % 600] = 1;
  for (std::size_t i = 0; i < 15; ++i) labels[11 * i % 600] = 2;
  std::map<std::int64_t, std::int64_t> of_all;
  for (const std::int64_t label : labels) ++of_all[label];
  const Rows fifths{4, 1};
  const auto parts =
      split_indices(600, {.fractions = {0.8, 0.2}, .seed = 1, .stratify = true}, labels);
  expect_whole(parts, 600);
  EXPECT_EQ(sizes_of(parts), (Rows{480, 120}));
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::map<std::int64_t, std::int64_t> counts;
    for (const std::int64_t i : parts[p]) ++counts[labels[static_cast<std::size_t>(i)]];
    for (const auto& [label, count] : of_all) {
      EXPECT_LE(std::abs(5 * counts[label] - fifths[p] * count), 5) << label << " in part " << p;
    }
  }
}

TEST(Split, OfImagesWithAndWithoutTransformsIsTheSame) {
  const auto plain = small_set(40);
  const auto varied = map(*plain, {RandomHorizontalFlip{}});
  const SplitOptions options{.fractions = {0.75, 0.25}, .seed = 2, .stratify = true};
  const auto of_plain = random_split(*plain, options);
  const auto of_varied = random_split(*varied, options);
  ASSERT_EQ(of_plain.size(), 2U);
  EXPECT_EQ(of_plain[0]->indices(), of_varied[0]->indices());
  expect_whole({of_plain[0]->indices(), of_varied[1]->indices()}, 40);
  EXPECT_EQ(of_plain[1]->size(), 10);
  EXPECT_THAT(labels_of(*of_plain[1]), testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(Split, OfTensorsKeepsRowsTogether) {
  const auto parts =
      split_rows({numbered_rows(10), row_numbers(10)}, {.counts = {7, 3}, .seed = 5});
  ASSERT_EQ(parts.size(), 2U);
  std::vector<Rows> numbers;
  for (const std::vector<Tensor>& part : parts) {
    numbers.push_back(part[1].to_vector<std::int64_t>());
    const Rows rows = part[0].to_vector<std::int64_t>();
    for (std::size_t i = 0; i < numbers.back().size(); ++i) {
      EXPECT_EQ(rows[2 * i], 2 * numbers.back()[i]);
    }
  }
  expect_whole(numbers, 10);
  const Tensor classes = from_values<std::int32_t>({0, 0, 1, 1}, {4});
  const auto halves =
      split_rows({row_numbers(4), classes}, {.fractions = {0.5, 0.5}, .stratify = true});
  for (const std::vector<Tensor>& half : halves) {
    EXPECT_THAT(half[1].to_vector<std::int32_t>(), ElementsAre(0, 1));
  }
}

TEST(TakeRows, CopiesRows) {
  EXPECT_THAT(take_rows(numbered_rows(3), Rows{2, 0, 2}).to_vector<std::int64_t>(),
              ElementsAre(4, 5, 0, 1, 4, 5));
  EXPECT_EQ(take_rows(numbered_rows(3), Rows{}).shape(), (Shape{0, 2}));
  EXPECT_THAT(message_of<ArgumentError>([] { take_rows(numbered_rows(3), Rows{3}); }),
              HasSubstr("[take_rows] there is no row 3 in"));
}

TEST(Split, RefusesPartsThatCannotBe) {
  const auto refusal = [](std::int64_t size, const SplitOptions& options) {
    return message_of<ArgumentError>([&] { split_indices(size, options); });
  };
  EXPECT_THAT(refusal(10, {}), HasSubstr("either as fractions or as counts"));
  EXPECT_THAT(refusal(10, {.fractions = {1}, .counts = {10}}), HasSubstr("not both"));
  EXPECT_EQ(refusal(10, {.fractions = {0.5, 0.4}}),
            "[split] the fractions add up to 0.9. They must add up to 1");
  EXPECT_EQ(refusal(10, {.fractions = {1.5, -0.5}}),
            "[split] a fraction must be above 0 and at most 1: 1.5");
  EXPECT_EQ(refusal(10, {.fractions = {0.99, 0.01}}),
            "[split] part 1 of 10 examples would have 0. Give each part at least one");
  EXPECT_EQ(refusal(10, {.counts = {5, 4}}),
            "[split] the counts add up to 9, and there are 10 examples. They must add up to "
            "exactly that");
  EXPECT_THAT(refusal(10, {.counts = {5, 6}}), HasSubstr("add up to more than the 10 examples"));
  EXPECT_THAT(refusal(10, {.counts = {11, -1}}), HasSubstr("add up to more than the 10"));
  EXPECT_EQ(refusal(10, {.counts = {5, 5}, .stratify = true}),
            "[split] a stratified split of 10 examples needs a label for each; there are 0");
  EXPECT_THAT(message_of<ArgumentError>([] {
                split_rows({row_numbers(4), row_numbers(3)}, {.fractions = {0.5, 0.5}});
              }),
              HasSubstr("[split] tensor 1 has 3 rows, and the first one 4"));
  EXPECT_THAT(message_of<ArgumentError>([] {
                split_rows({numbered_rows(4)}, {.fractions = {0.5, 0.5}, .stratify = true});
              }),
              HasSubstr("uses the last tensor as class numbers"));
  EXPECT_THAT(message_of<ArgumentError>([] { split_rows({}, {.fractions = {1}}); }),
              HasSubstr("there are no tensors"));
}

}  // namespace
}  // namespace mezzo::data
