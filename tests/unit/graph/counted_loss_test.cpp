// Tests graph mode of steps whose losses do not count every label: the bits of eager steps,
// replayed and recorded, where each batch is counted anew.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/nn/loss.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

constexpr std::int64_t kImages = 7;
constexpr std::int64_t kNoLabel = -100;

// The first images of each step are ignored, that many more in every step; in the fifth step all
// are.
Batch counted_batch(std::uint64_t step) {
  Batch batch = amp::small_batch(step, kImages);
  std::vector<std::int64_t> labels = batch.labels.to_vector<std::int64_t>();
  const std::int64_t ignored = step == 4 ? kImages : static_cast<std::int64_t>(step);
  for (std::int64_t i = 0; i < ignored; ++i) labels[static_cast<std::size_t>(i)] = kNoLabel;
  batch.labels = from_values(labels, {kImages});
  return batch;
}

void expect_bits_of_eager(const amp::TrainNetworkOptions& amp, const CrossEntropyOptions& loss,
                          const RecordOptions& record) {
  const std::optional<amp::LossScaleOptions> scaling =
      amp.dtype == DType::kF16 ? std::optional(amp::LossScaleOptions{.init_scale = 256})
                               : std::nullopt;
  Twins<amp::SmallNet> twins(small_net, kSgd, amp, scaling, nn::CrossEntropyLoss(loss), record);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const TrainStepResult result = twins.step(counted_batch(i));
    EXPECT_EQ(result.nonfinite_loss, i == 4);
    EXPECT_EQ(result.skipped, i == 4);
    twins.expect_same_state();
  }
}

void expect_bits_of_eager_everywhere(const RecordOptions& record) {
  const CrossEntropyOptions ignoring{.ignore_index = kNoLabel};
  const CrossEntropyOptions weighted{.label_smoothing = 0.1,
                                     .ignore_index = kNoLabel,
                                     .class_weights = from_values<float>({1, 5, 20}, {3})};
  for (const CrossEntropyOptions& loss : {ignoring, weighted}) {
    for (const std::int64_t parts : {1, 3, 7}) {
      for (const DType dtype : {DType::kBf16, DType::kF16}) {
        for (const char* level : {"O0", "O2"}) {
          expect_bits_of_eager({.level = level, .dtype = dtype, .step = {.micro_batches = parts}},
                               loss, record);
        }
      }
    }
  }
}

TEST(CountedLoss, HasTheBitsOfEagerMode) { expect_bits_of_eager_everywhere({}); }

TEST(CountedLoss, HasTheBitsOfEagerModeRecorded) {
  RecorderLog log;
  expect_bits_of_eager_everywhere(recorded_in(log));
  EXPECT_GT(log.launches, 0);
}

}  // namespace
}  // namespace mezzo::graph
