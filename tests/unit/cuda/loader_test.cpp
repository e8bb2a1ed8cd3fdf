// Tests batches that a loader provides on a device.
#include "mezzo/data/loader.h"

#include <gtest/gtest.h>

#include "mezzo/data/open.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/unit/cuda/card.h"

namespace mezzo::data {
namespace {

class CudaLoader : public OnCard<> {};

void expect_equal(const Batch& batch, const Batch& expected) {
  ASSERT_EQ(batch.images.device(), kCard);
  ASSERT_EQ(batch.labels.device(), kCard);
  EXPECT_EQ(batch.indices, expected.indices);
  // Work is queued before anybody waits, as in a training step.
  const Tensor doubled = batch.images + batch.images;
  EXPECT_EQ(doubled.to_vector<float>(), (expected.images + expected.images).to_vector<float>());
  EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), expected.labels.to_vector<std::int64_t>());
}

TEST_F(CudaLoader, BatchesAreThoseOfTheHost) {
  const auto set = open_dataset("digits", Split::kTest);
  for (const std::int64_t workers : {0, 1, 3}) {
    SCOPED_TRACE(workers);
    DataLoader on_host(*set, {.batch_size = 100, .seed = 4, .workers = workers});
    DataLoader on_card(*set, {.batch_size = 100, .seed = 4, .workers = workers, .device = kCard});
    Batch expected;
    Batch batch;
    for (int epoch = 0; epoch < 2;) {
      const bool has_more = on_host.next(expected);
      ASSERT_EQ(on_card.next(batch), has_more);
      // A batch whose copy has begun does not count as handed out.
      ASSERT_EQ(on_card.position(), on_host.position());
      if (has_more) {
        expect_equal(batch, expected);
      } else {
        ++epoch;
      }
    }
  }
}

TEST_F(CudaLoader, GoesElsewhereWithABatchOnItsWay) {
  const auto set = open_dataset("digits", Split::kTest);
  DataLoader on_host(*set, {.batch_size = 64, .seed = 4, .workers = 2});
  DataLoader on_card(*set, {.batch_size = 64, .seed = 4, .workers = 2, .device = kCard});
  for (const LoaderPosition place : {LoaderPosition{0, 0}, {3, 1}, {3, 0}, {1, 2}}) {
    on_host.seek(place);
    on_card.seek(place);
    Batch expected;
    Batch batch;
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(on_host.next(expected));
      ASSERT_TRUE(on_card.next(batch));
      expect_equal(batch, expected);
    }
  }
}

}  // namespace
}  // namespace mezzo::data
