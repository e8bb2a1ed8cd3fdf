// Tests where the memory of batches comes from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using testing::HasSubstr;

TEST(LoaderMemory, PinnedBatchesNeedACard) {
  if (has_device({DeviceType::kCuda, 0})) GTEST_SKIP() << "there is a CUDA card";
  const auto set = open_dataset("digits", Split::kTest);
  EXPECT_THAT(
      message_of<UnsupportedError>([&] { DataLoader(*set, {.pin_memory = true}); }),
      HasSubstr(
          "[loader] there is no CUDA GPU to copy to from pinned memory. Leave pin_memory out"));
}

TEST(LoaderMemory, BatchesOnACardNeedOne) {
  const Device none{DeviceType::kCuda, 127};
  const auto set = open_dataset("digits", Split::kTest);
  EXPECT_THAT(message_of<UnsupportedError>([&] { DataLoader(*set, {.device = none}); }),
              HasSubstr("[device] there is no cuda:127"));
}

TEST(LoaderMemory, PinnedBatchesHoldTheSameNumbers) {
  if (!has_device({DeviceType::kCuda, 0})) GTEST_SKIP() << "there is no CUDA card";
  const auto set = open_dataset("digits", Split::kTest);
  DataLoader plain(*set, {.batch_size = 16, .workers = 2});
  DataLoader pinned(*set, {.batch_size = 16, .workers = 2, .pin_memory = true});
  Batch expected;
  Batch batch;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(plain.next(expected));
    ASSERT_TRUE(pinned.next(batch));
    EXPECT_TRUE(batch.images.storage()->is_pinned());
    EXPECT_TRUE(batch.labels.storage()->is_pinned());
    // The batch is copied to the GPU; its memory may return to the pool before the copy ends.
    const Tensor images = batch.images.to({DeviceType::kCuda, 0});
    const Tensor labels = batch.labels.to({DeviceType::kCuda, 0});
    batch = {};
    EXPECT_EQ(images.to_vector<float>(), expected.images.to_vector<float>());
    EXPECT_EQ(labels.to_vector<std::int64_t>(), expected.labels.to_vector<std::int64_t>());
  }
}

}  // namespace
}  // namespace mezzo::data
