// Tests the contents of a loader's batches, and which sets and options are refused.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/data/images.h"
#include "tests/unit/data/small_set.h"

namespace mezzo::data {
namespace {

TEST(Loader, ImagesAreNormalizedChannelsLastF32) {
  const auto set = small_set(4, 3);
  DataLoader loader(*set, {.batch_size = 3, .shuffle = false});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.images.shape(), Shape({3, 3, 2, 3}));
  EXPECT_EQ(batch.images.dtype(), DType::kF32);
  EXPECT_TRUE(batch.images.is_dense(Format::kChannelsLast));
  EXPECT_EQ(batch.labels.dtype(), DType::kI64);
  EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), std::vector<std::int64_t>({0, 1, 2}));
  const Normalization normal = cifar10_normalization();
  const std::vector<float> values = batch.images.to_vector<float>();  // n, c, h, w
  for (std::size_t n = 0, i = 0; n < 3; ++n) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t pixel = 0; pixel < 6; ++pixel, ++i) {
        const auto byte = static_cast<float>(7 * n + 3 * pixel + c);
        EXPECT_EQ(values[i], (byte / 255.0F - normal.mean[c]) / normal.deviation[c]) << i;
      }
    }
  }
}

TEST(Loader, AnyNumberOfChannelsHasNumbersForEach) {
  for (std::uint8_t channels = 1; channels <= 5; ++channels) {
    ImageTable table{.image_shape = {channels, 1, 1}, .num_classes = 1, .labels = {0}};
    std::vector<float> expected;
    for (std::uint8_t c = 0; c < channels; ++c) {
      table.normalization.mean.push_back(0);
      table.normalization.deviation.push_back(static_cast<float>(c + 1));
      table.pixels.push_back(255);
      expected.push_back(1.0F / static_cast<float>(c + 1));
    }
    const MemoryDataset set(std::move(table));
    DataLoader loader(set, {.batch_size = 1});
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.images.to_vector<float>(), expected);
  }
}

TEST(Loader, NormalizationHasTheStandardValues) {
  EXPECT_EQ(grey_normalization(), (Normalization{{0.1307F}, {0.3081F}}));
  EXPECT_EQ(cifar10_normalization(),
            (Normalization{{0.4914F, 0.4822F, 0.4465F}, {0.2023F, 0.1994F, 0.2010F}}));
  const auto set = small_set(1);
  DataLoader loader(*set, {.shuffle = false, .normalization = Normalization{{0.5F}, {0.25F}}});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.images.to_vector<float>()[5], (5 / 255.0F - 0.5F) / 0.25F);
}

TEST(Loader, ImagesCanBeInSixteenBits) {
  const auto set = random_set(6, {3, 4, 5});
  Batch wide;
  DataLoader(*set, {.batch_size = 6}).next(wide);
  const std::vector<float> numbers = wide.images.to_vector<float>();
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Batch batch;
    DataLoader(*set, {.batch_size = 6, .image_dtype = dtype}).next(batch);
    EXPECT_EQ(batch.images.dtype(), dtype);
    EXPECT_TRUE(batch.images.is_dense(Format::kChannelsLast));
    EXPECT_EQ(batch.images.to_vector<float>(), wide.images.astype(dtype).to_vector<float>());
    EXPECT_NE(batch.images.to_vector<float>(), numbers);
  }
}

TEST(Loader, LabelsCanBeNarrowOrRows) {
  const auto set = small_set(4);
  Batch batch;
  DataLoader(*set, {.batch_size = 4, .shuffle = false, .label_dtype = DType::kI32}).next(batch);
  EXPECT_EQ(batch.labels.to_vector<std::int32_t>(), std::vector<std::int32_t>({0, 1, 2, 3}));
  DataLoader(*set, {.batch_size = 4, .shuffle = false, .one_hot = OneHot{0.9F, 0.1F}}).next(batch);
  EXPECT_EQ(batch.labels.shape(), Shape({4, 10}));
  const std::vector<float> rows = batch.labels.to_vector<float>();
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(rows[i], i % 10 == i / 10 ? 0.9F : 0.1F) << i;
}

// A set with the given labels.
class Mislabelled final : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  Shape image_shape() const override { return {1, 1, 1}; }
  std::int64_t num_classes() const override { return 2; }
  Normalization normalization() const override { return grey_normalization(); }
  std::int64_t read(std::int64_t index, Generator& /*random*/,
                    std::span<std::uint8_t> pixels) const override {
    pixels[0] = 0;
    return index - 1;
  }
};

TEST(Loader, LabelsMustBeClasses) {
  const Mislabelled set;
  for (const std::int64_t first : {0, 3}) {  // -1 and 2
    DataLoader loader(set, {.batch_size = 1, .shuffle = false, .workers = 0});
    loader.seek({0, first});
    Batch batch;
    EXPECT_THAT(message_of<ArgumentError>([&] { loader.next(batch); }),
                testing::HasSubstr(concat("is ", first - 1, ", and there are 2 classes")));
  }
}

// A set whose images have an invalid shape, or that is empty.
class Misshapen final : public Dataset {
 public:
  Misshapen(std::int64_t size, const Shape& shape) : size_(size), shape_(shape) {}
  std::int64_t size() const override { return size_; }
  Shape image_shape() const override { return shape_; }
  std::int64_t num_classes() const override { return 2; }
  Normalization normalization() const override { return grey_normalization(); }
  std::int64_t read(std::int64_t /*index*/, Generator& /*random*/,
                    std::span<std::uint8_t> /*pixels*/) const override {
    return 0;
  }

 private:
  std::int64_t size_;
  Shape shape_;
};

TEST(Loader, RefusesSetsWithoutImages) {
  const auto error_of = [](std::int64_t size, const Shape& shape) {
    const Misshapen set(size, shape);
    return message_of<ArgumentError>([&] { const DataLoader loader(set, {}); });
  };
  EXPECT_EQ(error_of(4, {784}),
            "[loader] image_shape() must be [channels, height, width], it is [784]. Correct the "
            "data set");
  EXPECT_EQ(error_of(0, {1, 2, 2}), "[loader] the data set has 0 examples. Give it at least one");
}

TEST(Loader, NumbersMustBeFiniteInTheirType) {
  const auto set = small_set(4);
  const Normalization steep{{0.0F}, {1e-6F}};
  EXPECT_NO_THROW(DataLoader(*set, {.batch_size = 4, .normalization = steep}));
  EXPECT_THAT(message_of<ArgumentError>([&] {
                const DataLoader loader(*set, {.normalization = steep, .image_dtype = DType::kF16});
              }),
              ::testing::AllOf(::testing::HasSubstr("[loader] byte 17 of channel 0 becomes 66666"),
                               ::testing::HasSubstr("not finite in f16")));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(DataLoader(*set, {.normalization = Normalization{{nan}, {1.0F}}}), ArgumentError);
}

TEST(MemoryDataset, RefusesTablesThatDoNotFit) {
  ImageTable table{.image_shape = {1, 1, 2},
                   .num_classes = 3,
                   .normalization = grey_normalization(),
                   .pixels = {1, 2, 3, 4},
                   .labels = {0, 2}};
  EXPECT_EQ(MemoryDataset(table).size(), 2);
  const auto refused = [&](auto change) {
    ImageTable changed = table;
    change(changed);
    EXPECT_THROW(MemoryDataset{changed}, ArgumentError);
  };
  refused([](ImageTable& t) { t.pixels.pop_back(); });
  refused([](ImageTable& t) { t.labels[1] = 3; });
  refused([](ImageTable& t) { t.labels.clear(); });
  refused([](ImageTable& t) { t.image_shape = {2}; });
  refused([](ImageTable& t) { t.normalization = cifar10_normalization(); });
  refused([](ImageTable& t) { t.normalization.mean.push_back(0); });
  refused([](ImageTable& t) { t.normalization.deviation.push_back(1); });
}

}  // namespace
}  // namespace mezzo::data
