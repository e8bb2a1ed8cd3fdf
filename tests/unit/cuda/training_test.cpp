// Compares whole training steps on a device with those of the CPU.
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/data/digits.h"
#include "mezzo/io/npy.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/run.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

class CudaTraining : public OnCard<> {};

// The losses of some steps of the small network, from the same weights, on the same batches.
std::vector<double> losses_on(Device device, const amp::Policy& policy, bool scaled) {
  manual_seed(21);
  amp::SmallNet net;
  net.to(device);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::TrainStep step(net, amp::class_loss, optimizer,
                      scaled ? amp::GradScaler() : amp::GradScaler({}, false), {.policy = policy});
  std::vector<double> losses;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const amp::Batch batch = amp::small_batch(i % 3);
    losses.push_back(step(batch.images.to(device), batch.labels.to(device)).loss);
  }
  return losses;
}

void expect_alike(const amp::Policy& policy, bool scaled, double allowed) {
  const std::vector<double> expected = losses_on(kCpuDevice, policy, scaled);
  const std::vector<double> got = losses_on(kCard, policy, scaled);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], allowed * std::max(1.0, expected[i])) << "step " << i;
  }
}

// Sums in another order differ in their last bits, and training amplifies differences.
TEST_F(CudaTraining, InF32FollowsTheCpu) { expect_alike({amp::Level::kO0}, false, 1e-3); }

TEST_F(CudaTraining, InBf16FollowsTheCpu) {
  expect_alike({amp::Level::kO2, DType::kBf16}, false, 0.1);
}

TEST_F(CudaTraining, InF16WithALossScaleFollowsTheCpu) {
  expect_alike({amp::Level::kO2, DType::kF16}, true, 0.05);
}

TEST_F(CudaTraining, WeightsAreSavedFromTheCard) {
  amp::SmallNet net;
  const std::vector<std::byte> bytes = io::serialize_safetensors(net.state());
  const std::vector<std::byte> array = io::serialize_npy(net.parameters()[0]);
  net.to(kCard);
  EXPECT_TRUE(io::serialize_safetensors(net.state()) == bytes);
  EXPECT_TRUE(io::serialize_npy(net.parameters()[0]) == array);
}

TEST_F(CudaTraining, GivesTheSameBitsTwice) {
  const amp::Policy policy{amp::Level::kO2, DType::kF16};
  EXPECT_EQ(losses_on(kCard, policy, true), losses_on(kCard, policy, true));
}

// Batches are on the device, and observers see them on the host.
class FirstBatch final : public train::RunObserver {
 public:
  void on_first_batch(const data::Batch& batch, const data::Dataset& /*dataset*/) override {
    labels = batch.labels;
    images = batch.images;
  }

  Tensor images;
  Tensor labels;
};

TEST_F(CudaTraining, AWholeRunFollowsTheCpu) {
  const train::DataPair data{data::open_digits(data::Split::kTrain, 96),
                             data::open_digits(data::Split::kTest, 40)};
  train::RunOptions options;
  options.model = "mlp";
  options.policy = {amp::Level::kO0};
  options.epochs = 2;
  options.batch_size = 16;
  FirstBatch expected;
  const train::RunResult on_cpu = train::run(options, data, expected);
  options.device = kCard;
  FirstBatch got;
  const train::RunResult on_card = train::run(options, data, got);
  EXPECT_EQ(got.images.to_vector<float>(), expected.images.to_vector<float>());
  ASSERT_EQ(got.labels.device(), kCpuDevice);
  EXPECT_EQ(got.labels.to_vector<std::int64_t>(), expected.labels.to_vector<std::int64_t>());
  EXPECT_EQ(on_card.steps, 12);
  EXPECT_NEAR(on_card.test.loss, on_cpu.test.loss, 1e-3 * on_cpu.test.loss);
}

TEST_F(CudaTraining, PeaksAreMeasuredBehindTheWarmUp) {
  constexpr std::int64_t kMuch = 64 << 20;
  struct Waster final : train::RunObserver {
    void on_step(const train::StepEvent& event) override {
      if (event.step == 1) empty({kMuch}, DType::kU8, Format::kContiguous, kCard);
    }
  } waster;
  train::RunOptions options;
  options.model = "mlp";
  options.batch_size = 2;
  options.device = kCard;
  const train::RunResult result = train::bench(options, {.warmup = 1, .steps = 1}, waster);
  EXPECT_GT(result.peak_bytes, 0);
  EXPECT_LT(result.peak_bytes, kMuch);
}

}  // namespace
}  // namespace mezzo
