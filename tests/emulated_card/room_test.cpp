// Tests that what graph mode recomputes to save memory depends on a device's free memory.
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/model.h"
#include "mezzo/optim/sgd.h"
#include "tests/emulated_card/memory.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo {
namespace {

// While it exists, other programs use all but that much of the device's memory.
class Left {
 public:
  explicit Left(std::size_t bytes) {
    backend_of(kCard).trim(kCard);  // otherwise cached blocks would be free, too
    emulated_card::set_used_by_others(backend_of(kCard).available(kCard) - bytes);
  }
  ~Left() { emulated_card::set_used_by_others(0); }
  Left(const Left&) = delete;
  Left& operator=(const Left&) = delete;
};

std::size_t norms_computed_again_with(std::size_t left) {
  const Left little(left);
  graph::Program program = graph::parse_program(graph::kNormKeptForBackward);
  program.device = kCard;
  return graph::kRecomputeNorms.run(program);
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  std::int64_t peak_bytes = 0;
};

// Runs steps of a residual network in graph mode, the last ones recorded.
Trained train_in_graph_mode() {
  manual_seed(5);
  const std::unique_ptr<nn::Module> net = models::create("resnet20");
  net->to(kCard);
  optim::Sgd optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::TrainStep step(*net, amp::class_loss, optimizer, amp::GradScaler(),
                      {.policy = amp::Policy{amp::Level::kO2, DType::kF16}});
  step.set_execution(graph::captured(*net));
  const Tensor images = randn({2, 3, 16, 16}).to(kCard);
  const Tensor labels = from_values<std::int64_t>({3, 7}, {2}).to(kCard);
  Trained result;
  reset_peak_memory(kCard);
  for (int i = 0; i < 4; ++i) result.losses.push_back(step(images, labels).loss);
  result.peak_bytes = memory_stats(kCard).peak_bytes;
  for (const Tensor& weight : net->parameters())
    result.weights.push_back(weight.to_vector<float>());
  return result;
}

TEST(Room, NormsAreComputedAgainOnlyWhereMemoryIsShort) {
  EXPECT_EQ(norms_computed_again_with(1 << 20), 0U);
  EXPECT_EQ(norms_computed_again_with(1 << 14), 1U);
}

TEST(Room, NormsThatAreComputedAgainHaveTheSameBits) {
  const Trained kept = train_in_graph_mode();
  const Left little(1 << 14);
  const Trained again = train_in_graph_mode();
  EXPECT_LT(again.peak_bytes, kept.peak_bytes);
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_EQ(again.weights, kept.weights);
}

TEST(Room, CachedBlocksAreAvailable) {
  const std::size_t before = backend_of(kCard).available(kCard);
  constexpr std::int64_t kBytes = 1 << 20;
  {
    const Tensor held = empty({kBytes / 4}, DType::kF32, Format::kContiguous, kCard);
    EXPECT_LE(backend_of(kCard).available(kCard) + kBytes, before);
  }
  EXPECT_EQ(backend_of(kCard).available(kCard), before);
}

}  // namespace
}  // namespace mezzo
