// Tests weights that the update of a run packs into the arena for the next run.
#include "mezzo/graph/packed_slots.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/cpu.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/graph/twins.h"
#include "tests/unit/pack_count.h"

namespace mezzo::graph {
namespace {

// Activations shrink along the network, and with them the used part of the arena: there is space
// for packed weights.
class PackedNet : public nn::Module {
 public:
  PackedNet() {
    add("first", first_), add("second", second_), add("third", third_), add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(third_(relu(second_(relu(first_(x))))));
    return fc_(mean(y, {2, 3}));
  }

 private:
  nn::Conv2d first_{3, 64, 3, {.padding = 1}};
  nn::Conv2d second_{64, 64, 3, {.stride = 2, .padding = 1}};
  nn::Conv2d third_{64, 96, 1};
  nn::Linear fc_{96, 3};
};

std::unique_ptr<PackedNet> packed_net() { return std::make_unique<PackedNet>(); }

Batch packed_batch(std::uint64_t seed, std::int64_t n = 6) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(i % 3);
  return {randn({n, 3, 24, 24}, generator), from_values(labels, {n})};
}

amp::TrainNetworkOptions packed_options(DType dtype) {
  return {.level = dtype == DType::kF32 ? "O0" : "O2",
          .dtype = dtype == DType::kF32 ? DType::kBf16 : dtype};
}

std::vector<DType> packed_dtypes() {
  std::vector<DType> dtypes{DType::kF32};
  if (has_fast_bf16()) dtypes.push_back(DType::kBf16);
  return dtypes;
}

using PackedTwins = Twins<PackedNet>;

// Reads the weights of both that many times.
void expect_same_logits(PackedTwins& twins, const Tensor& x, DType dtype, int readings) {
  const NoGrad guard;
  const amp::Autocast region(DType::kBf16, dtype != DType::kF32);
  for (int i = 0; i < readings; ++i) {
    EXPECT_TRUE(twins.graph_net()(x).to_vector<double>() ==
                twins.eager_net()(x).to_vector<double>());
  }
}

TEST(PackedRooms, StepsHaveTheBitsOfEagerOnes) {
  for (const DType dtype : packed_dtypes()) {
    PackedTwins twins(packed_net, kSgd, packed_options(dtype));
    for (std::uint64_t i = 0; i < 5; ++i) twins.step(packed_batch(i));
    twins.expect_same_state();
  }
}

// Other readers between runs, and other programs of the same weights with their own arenas.
TEST(PackedRooms, OtherReadersAndOtherShapesComeBetween) {
  for (const DType dtype : packed_dtypes()) {
    PackedTwins twins(packed_net, kSgd, packed_options(dtype));
    for (std::uint64_t i = 0; i < 9; ++i) {
      twins.step(packed_batch(i, i % 3 == 2 ? 4 : 6));
      if (i % 2 == 0) continue;
      const Tensor x = packed_batch(50 + i, i % 3 == 0 ? 6 : 3).images;
      expect_same_logits(twins, x, dtype, 1 + static_cast<int>(i % 3));
    }
    twins.expect_same_state();
  }
}

// A skipped step packs nothing, but has overwritten what was packed for it. Packed weights would
// otherwise be kept, since these are read more than once between updates.
TEST(PackedRooms, SkippedStepsLeaveNoPackedWeights) {
  for (const DType dtype : packed_dtypes()) {
    PackedTwins twins(packed_net, kSgd, packed_options(dtype),
                      amp::LossScaleOptions{.init_scale = 256});
    for (std::uint64_t i = 0; i < 8; ++i) {
      Batch batch = packed_batch(i);
      if (i % 4 == 3) batch.images = batch.images * 1e38;
      EXPECT_EQ(twins.step(batch).skipped, i % 4 == 3);
      expect_same_logits(twins, packed_batch(30 + i).images, dtype, 2);
    }
    twins.expect_same_state();
  }
}

// A plain step: the number of packings and the memory that it takes.
struct PlainStep {
  std::unique_ptr<nn::Module> net = packed_net();
  optim::Sgd sgd{net->parameters(), kSgd};

  CompiledStep compiled(DType dtype) {
    return CompiledStep(
        [this, dtype](std::span<const Tensor> in) {
          Tensor loss;
          {
            const amp::Autocast region(DType::kBf16, dtype != DType::kF32);
            loss = amp::class_loss((*net)(in[0]), in[1]);
          }
          loss.backward();
          sgd.step();
          sgd.zero_grad();
          return std::vector<Tensor>{loss.detach()};
        },
        {});
  }
};

TEST(PackedRooms, TheNextRunPacksNothingInTheForwardPass) {
  if (!test::kOnednnWantsPackedWeights) GTEST_SKIP() << "oneDNN reads weights as they lie";
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  for (const DType dtype : packed_dtypes()) {
    PlainStep plain;
    CompiledStep step = plain.compiled(dtype);
    const Batch batch = packed_batch(1);
    const Tensor inputs[] = {batch.images, batch.labels};
    const auto packs_of_run = [&] {
      const test::PackCount packs;
      step(inputs);
      return packs.count;
    };
    const int at_first = packs_of_run();
    const std::size_t slots = step.latest()->memory().packed_slots.size();
    EXPECT_GE(slots, 2U);
    EXPECT_GE(at_first, 2);
    EXPECT_LE(packs_of_run(), at_first - 2);
    EXPECT_LE(packs_of_run(), at_first - 2);
  }
}

// A network that returns to the size of its images.
class EnlargingNet : public nn::Module {
 public:
  EnlargingNet() { add("down", down_), add("up", up_), add("fc", fc_); }
  Tensor forward(const Tensor& x) override { return fc_(mean(relu(up_(relu(down_(x)))), {2, 3})); }

 private:
  nn::Conv2d down_{3, 64, 3, {.stride = 2, .padding = 1}};
  nn::ConvTranspose2d up_{64, 64, 3, {.stride = 2, .padding = 1, .output_padding = 1}};
  nn::Linear fc_{64, 3};
};

std::unique_ptr<EnlargingNet> enlarging_net() { return std::make_unique<EnlargingNet>(); }

// A transposed convolution reads in the forward pass the layout that others read in the backward
// pass, and vice versa.
TEST(PackedRooms, TransposedConvolutionsHaveThem) {
  for (const DType dtype : packed_dtypes()) {
    PlainStep plain{enlarging_net()};
    CompiledStep step = plain.compiled(dtype);
    const Batch batch = packed_batch(1);
    const Tensor inputs[] = {batch.images, batch.labels};
    step(inputs);
    const Program& program = step.latest()->program();
    EXPECT_TRUE(std::ranges::any_of(wanted_slots(program), [&](const PackedSlot& slot) {
      return std::string_view(program.nodes[slot.reader].op->name) == "conv_transpose2d" &&
             slot.pass == ReadIn::kBackward;
    }));
    Twins<EnlargingNet> twins(enlarging_net, kSgd, packed_options(dtype),
                              amp::LossScaleOptions{.init_scale = 256});
    for (std::uint64_t i = 0; i < 6; ++i) {
      Batch next = packed_batch(i);
      if (i == 3) next.images = next.images * 1e38;
      EXPECT_EQ(twins.step(next).skipped, i == 3);
    }
    twins.expect_same_state();
  }
}

// Kernels of other batch sizes may read other layouts of a weight.
TEST(PackedRooms, HoldOneCopyEach) {
  if (!test::kOnednnWantsPackedWeights) GTEST_SKIP() << "oneDNN reads weights as they lie";
  PlainStep plain;
  const Batch batch = packed_batch(1);
  const Tensor inputs[] = {batch.images, batch.labels};
  CompiledStep step = plain.compiled(DType::kF32);
  step(inputs);
  const std::vector<PackedSlot>& slots = step.latest()->memory().packed_slots;
  ASSERT_FALSE(slots.empty());
  const Program& program = step.latest()->program();
  const Ref<Storage> arena = make_ref<Storage>(step.latest()->memory().arena_bytes, program.device);
  const PackedSlot& slot = slots.front();
  OfferSlots offer(slots, program, arena, slot.writer);
  const Tensor& param = program.values[slot.parameter].tensor;
  EXPECT_FALSE(offer.place_for(param, slot.pass, slot.bytes + 1));
  const Ref<Storage> place = offer.place_for(param, slot.pass, slot.bytes);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->data(), static_cast<std::byte*>(arena->data()) + slot.offset);
  EXPECT_FALSE(offer.place_for(param, slot.pass, slot.bytes)) << "a second time";
  EXPECT_FALSE(offer.place_for(batch.images, slot.pass, 64)) << "of something else";
}

TEST(PackedRooms, AnArenaGoesWithItsProgram) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  PlainStep plain;
  const Batch batch = packed_batch(1);
  const Tensor inputs[] = {batch.images, batch.labels};
  const auto live = [] { return cpu_allocator().stats().live_bytes; };
  std::int64_t arena = 0;
  std::int64_t with_program = 0;
  {
    CompiledStep step = plain.compiled(DType::kF32);
    for (int i = 0; i < 2; ++i) step(inputs);
    arena = static_cast<std::int64_t>(step.latest()->memory().arena_bytes);
    with_program = live();
  }
  EXPECT_LE(live(), with_program - arena);
}

// Slots stay free from the update of their weight to its reader in the next run.
TEST(PackedRooms, NoValueLiesInARoomThatIsInUse) {
  PlainStep plain;
  const Batch batch = packed_batch(1);
  const Tensor inputs[] = {batch.images, batch.labels};
  CompiledStep step = plain.compiled(DType::kF32);
  step(inputs);
  const Program& program = step.latest()->program();
  const MemoryPlan& plan = step.latest()->memory();
  ASSERT_FALSE(plan.packed_slots.empty());
  const auto meets = [&](ValueId value, const PackedSlot& slot) {
    if (value == kNoValue || plan.homes[value] != Home::kArena) return false;
    const ValueId block = plan.blocks[value];
    const std::size_t begin = plan.offsets[block];
    return begin < slot.offset + slot.bytes && slot.offset < begin + program.spec(block).bytes();
  };
  for (const PackedSlot& slot : plan.packed_slots) {
    EXPECT_LE(slot.offset + slot.bytes, plan.arena_bytes);
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      if (i > slot.reader && i < slot.writer) continue;
      for (const auto* values : {&program.nodes[i].inputs, &program.nodes[i].outputs}) {
        for (const ValueId value : *values) EXPECT_FALSE(meets(value, slot)) << "node " << i;
      }
    }
    for (const PackedSlot& other : plan.packed_slots) {
      EXPECT_TRUE(&other == &slot || other.offset >= slot.offset + slot.bytes ||
                  slot.offset >= other.offset + other.bytes);
    }
  }
}

}  // namespace
}  // namespace mezzo::graph
