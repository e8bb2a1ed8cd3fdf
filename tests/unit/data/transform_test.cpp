// Tests users' own steps of a pipeline.
#include "mezzo/data/transform.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/data/transforms.h"
#include "tests/unit/data/small_set.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

// Repeats every row.
struct DoubleRows {
  Shape output_shape(const Shape& input) const { return {input[0], 2 * input[1], input[2]}; }
  void apply(const ImageView& in, Generator& /*random*/, std::span<std::uint8_t> out) const {
    auto to = out.begin();
    for (std::int64_t y = 0; y < 2 * in.height; ++y) {
      to = std::copy_n(in.row(y / 2), in.width * in.channels, to);
    }
  }
};

struct Negative {
  void check(std::int64_t channels) const { check_arg(channels == 1, "negative", "one channel"); }
  float value(float value, std::size_t /*channel*/) const { return -value; }
};

// Adds noise from this image's stream.
void add_noise(Image& image, Generator& random) {
  for (std::uint8_t& byte : image.pixels) {
    byte = static_cast<std::uint8_t>(byte + random.below(50));
  }
}

std::vector<float> all_numbers(const Dataset& set, std::int64_t workers) {
  DataLoader loader(set, {.batch_size = 3, .seed = 4, .workers = workers});
  std::vector<float> all;
  for (Batch batch; loader.next(batch);) {
    for (const float number : batch.images.to_vector<float>()) all.push_back(number);
  }
  return all;
}

TEST(OwnTransforms, StandAmongTheOthers) {
  const auto set = small_set(10);
  const auto mapped =
      map(*set, {DoubleRows{}, RandomHorizontalFlip{1}, Rescale{.scale = 1}, Negative{}});
  EXPECT_EQ(mapped->image_shape(), Shape({1, 4, 3}));
  DataLoader loader(*mapped, {.batch_size = 1, .shuffle = false, .workers = 0});
  Batch batch;
  loader.next(batch);
  EXPECT_EQ(batch.images.to_vector<float>(),
            std::vector<float>({-2, -1, 0, -2, -1, 0, -5, -4, -3, -5, -4, -3}));
}

TEST(OwnTransforms, MayBeFunctions) {
  const auto set = small_set(10);
  const std::function<void(Image&, Generator&)> halve = [](Image& image, Generator&) {
    for (std::uint8_t& byte : image.pixels) byte /= 2;
  };
  const std::vector<Transform> steps{halve, add_noise,
                                     [](Image& image, Generator&) { image.pixels[0] = 200; }};
  const auto mapped = map(*set, steps);
  Image image;
  Generator random(7);
  mapped->read_image(3, random, image);
  EXPECT_EQ(image.pixels[0], 200);
  Generator same(7);
  same.below(50);
  EXPECT_EQ(image.pixels[1], (7 * 3 + 1) / 2 + static_cast<int>(same.below(50)));
}

TEST(OwnTransforms, GiveTheSameBatchesForAnyNumberOfWorkers) {
  const auto set = small_set(30);
  const auto mapped = map(*set, {add_noise});
  const std::vector<float> alone = all_numbers(*mapped, 0);
  for (const std::int64_t workers : {1, 3}) EXPECT_EQ(all_numbers(*mapped, workers), alone);
}

TEST(OwnTransforms, AreCheckedAsTheOthersAre) {
  const auto set = small_set(4);
  const auto grow = [](Image& image, Generator&) { image.reshape({1, 5, 5}); };
  const auto mapped = map(*set, {grow});
  Image image;
  Generator random;
  EXPECT_THAT(message_of<ArgumentError>([&] { mapped->read_image(0, random, image); }),
              HasSubstr("[map] a function has changed the shape of an image: [1, 2, 3] to [1, 5, "
                        "5]. Write a struct with output_shape() and apply() instead"));
  EXPECT_THAT(message_of<ArgumentError>([&] {
                map(*set, {Negative{}, DoubleRows{}});
              }),
              HasSubstr("follows one that gives floating-point values"));
  const auto colour = small_set(4, 3);
  EXPECT_THROW(map(*colour, {Negative{}}), ArgumentError);
}

}  // namespace
}  // namespace mezzo::data
