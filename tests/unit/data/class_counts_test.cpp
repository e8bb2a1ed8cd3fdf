#include "mezzo/data/class_counts.h"

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/pipeline.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Dataset> labelled_set(const std::vector<std::uint8_t>& labels, std::int64_t classes,
                                      std::vector<std::string> names = {}) {
  return std::make_unique<MemoryDataset>(
      ImageTable{.image_shape = {1, 2, 2},
                 .num_classes = classes,
                 .normalization = grey_normalization(),
                 .pixels = std::vector<std::uint8_t>(labels.size() * 4),
                 .labels = labels,
                 .class_names = std::move(names)});
}

TEST(ClassCounts, CountEveryImage) {
  EXPECT_THAT(class_counts(*labelled_set({0, 2, 2, 1, 2}, 4)), ElementsAre(1, 1, 3, 0));
  const auto digits = open_digits(Split::kTrain, 25);
  EXPECT_THAT(class_counts(*digits), ElementsAre(3, 3, 3, 3, 3, 2, 2, 2, 2, 2));
}

// However a set stores its labels, they are those that come with the images.
TEST(ClassCounts, LabelsAreThoseOfTheImages) {
  const auto set = labelled_set({0, 2, 2, 1, 2}, 3);
  const auto resized = map(*set, {Resize{.height = 3, .width = 3}});
  const auto repeated = repeat(*set, 2);
  for (const Dataset* dataset : {set.get(), resized.get(), repeated.get()}) {
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      Generator random(1);
      Image image;
      const std::int64_t label = dataset->read_image(i, random, image);
      EXPECT_EQ(dataset->label(i), label);
      EXPECT_EQ(dataset->Dataset::label(i), label);
    }
  }
  EXPECT_THAT(class_counts(*repeated), ElementsAre(2, 2, 6));
}

TEST(BalancedClassWeights, GiveEveryClassTheSame) {
  EXPECT_THAT(balanced_class_weights(*labelled_set({0, 0, 0, 1}, 2)), ElementsAre(4.0 / 6, 2.0));
  EXPECT_THAT(balanced_class_weights(*labelled_set({0, 1, 2}, 3)), ElementsAre(1.0, 1.0, 1.0));
  EXPECT_THAT(message_of<ArgumentError>([] {
                balanced_class_weights(*labelled_set({0, 0}, 2, {"a", "b"}));
              }),
              HasSubstr("class 1 (b) has no images, and so no balanced weight"));
}

}  // namespace
}  // namespace mezzo::data
