// Tests how early updates affect the memory plan: norms without memory, and slots for packed
// weights.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/cpu.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/norms_by_readers.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/unit/graph/early_training.h"

namespace mezzo::graph {
namespace {

using amp::Batch;

// The second convolution's gradient normalises its input after the update of the first.
class TwoReaders : public nn::Module {
 public:
  TwoReaders() {
    add("in", in_), add("bn", bn_), add("first", first_), add("second", second_), add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(bn_(in_(x)));
    return fc_(mean(relu(first_(y) + second_(y)), {2, 3}));
  }

 private:
  nn::Conv2d in_{3, 64, 3, {.padding = 1}};
  nn::BatchNorm2d bn_{64};
  nn::Conv2d first_{64, 128, 3, {.stride = 2, .padding = 1}};
  nn::Conv2d second_{64, 128, 3, {.stride = 2, .padding = 1}};
  nn::Linear fc_{128, 3};
};

TEST(EarlyUpdatesMemory, LeavesNormsToTheirReaders) {
  if (!has_vectors()) GTEST_SKIP() << "kernels that normalise what they read need AVX2";
  const Batch batch = early_batch(1, 8, 32);
  std::vector<std::ptrdiff_t> norms;
  for (const bool is_early : {false, true}) {
    TwoReaders net;
    optim::Sgd sgd(net.parameters(), kEarlySgd);
    CompileOptions options{.networks = {&net}};
    if (!is_early) options.passes.disabled = {"update_in_backward"};
    const Tensor inputs[] = {batch.images, batch.labels};
    const Program program = capture_improved(
        [&](std::span<const Tensor> in) {
          Tensor loss;
          {
            const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
            loss = amp::class_loss(net(in[0]).astype(DType::kF32), in[1]);
          }
          loss.backward();
          sgd.step();
          sgd.zero_grad();
          return std::vector<Tensor>{};
        },
        inputs, options);
    norms.push_back(std::ranges::count(norms_by_readers(program), true));
    EXPECT_EQ(std::ranges::any_of(program.nodes, &Node::is_part), is_early);
  }
  EXPECT_EQ(norms[0], 1);
  EXPECT_EQ(norms[1], 1);
}

// Expects that no value lies in the slot from its writer to its reader in the next run.
void expect_free(const Program& program, const MemoryPlan& plan, const PackedSlot& room) {
  EXPECT_GT(room.writer, room.reader);
  const auto is_apart = [&](ValueId value) {
    if (value == kNoValue || plan.homes[value] != Home::kArena) return true;
    const ValueId block = plan.blocks[value];
    const std::size_t begin = plan.offsets[block];
    return begin >= room.offset + room.bytes || room.offset >= begin + program.spec(block).bytes();
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (i > room.reader && i < room.writer) continue;
    EXPECT_TRUE(std::ranges::all_of(program.nodes[i].inputs, is_apart)) << "node " << i;
    EXPECT_TRUE(std::ranges::all_of(program.nodes[i].outputs, is_apart)) << "node " << i;
  }
}

// The parts of an update write their slots first.
TEST(EarlyUpdatesMemory, PacksWeightsIntoRoomsOfTheArena) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  EarlyTraining<optim::Sgd> eager(EarlyMode::kEagerly, kEarlySgd, {});
  EarlyTraining<optim::Sgd> early(EarlyMode::kEarly, kEarlySgd, {});
  for (std::uint64_t i = 0; i < kEarlySteps; ++i) {
    const Batch batch = early_batch(i, 8, 32);
    eager.step(batch.images, batch.labels);
    early.step(batch.images, batch.labels);
    EXPECT_TRUE(early.everything() == eager.everything());
  }
  const Program& program = early.compiled->latest()->program();
  const MemoryPlan& plan = early.compiled->latest()->memory();
  const auto is_part = [&](const PackedSlot& room) { return program.nodes[room.writer].is_part; };
  EXPECT_TRUE(std::ranges::any_of(plan.packed_slots, is_part));
  for (const PackedSlot& room : plan.packed_slots) {
    if (is_part(room)) expect_free(program, plan, room);
  }
}

}  // namespace
}  // namespace mezzo::graph
