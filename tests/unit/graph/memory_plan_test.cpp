#include "mezzo/graph/memory_plan.h"

#include <set>

#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/text.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::graph {
namespace {

ValueId value_called(const Program& program, const std::string& text) {
  const ValueNames names(program);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (names[v] == text) return v;
  }
  ADD_FAILURE() << "no value " << text;
  return 0;
}

struct Planned {
  explicit Planned(const char* text) : program(parse_program(text)), plan(plan_memory(program)) {}
  ValueId operator[](const char* name) const { return value_called(program, name); }
  Home home(const char* name) const { return plan.homes[(*this)[name]]; }

  Program program;
  MemoryPlan plan;
};

TEST(MemoryPlan, AChainTakesTwoBlocksAtATime) {
  const Planned p(R"(program(x: f32[1024]) {
  %0: f32[1024] = relu(x)
  %1: f32[1024] = relu(%0)
  %2: f32[1024] = relu(%1)
  %3: f32[1024] = relu(%2)
  return %3
}
)");
  EXPECT_EQ(p.plan.arena_bytes, 2U * 4096);
  EXPECT_EQ(p.plan.least_bytes, 2U * 4096);
  EXPECT_EQ(p.home("x"), Home::kOutside);
  EXPECT_EQ(p.home("%3"), Home::kFresh);
  EXPECT_EQ(p.plan.offsets[p["%0"]], p.plan.offsets[p["%2"]]);
}

// The largest is placed first, %4 reuses the place of %0, and beside it there is too little for %3.
TEST(MemoryPlan, LeavesNoGapAtThePeakWhereLargeBlocksFirstWould) {
  const Planned p(R"(program(x: f32[1024], y: f32[512], z: f32[768]) {
  %0: f32[1024] = relu(x)
  %1: f32[1024] = relu(x)
  %2: f32[] = sum(%0) {axes=[0] keepdim=false f32_result=true}
  %3: f32[512] = relu(y)
  %4: f32[768] = relu(z)
  %5: f32[] = sum(%1) {axes=[0] keepdim=false f32_result=true}
  %6: f32[] = sum(%3) {axes=[0] keepdim=false f32_result=true}
  %7: f32[] = sum(%4) {axes=[0] keepdim=false f32_result=true}
  return
}
)");
  EXPECT_EQ(p.plan.least_bytes, 4096U + 2048 + 3072 + 64);
  EXPECT_EQ(p.plan.arena_bytes, p.plan.least_bytes);
}

// A norm of the backward pass, followed by `reader`.
std::string norm_again_text(const std::string& reader) {
  return R"(program(x: bf16[4, 16, 8, 8] channels_last, g: bf16[4, 16, 8, 8] channels_last, mean: f32[16], var: f32[16]) {
  %0: bf16[4, 16, 8, 8] channels_last = relu(x)
  %1: bf16[4, 16, 8, 8] channels_last = batch_norm(%0, _, _, mean, var) {training=false relu=true eps=1e-05} #backward
  %2: bf16[4, 16, 8, 8] channels_last = relu(g) #backward
)" + reader +
         "  return %3\n}\n";
}

TEST(MemoryPlan, ANormThatWeightGradientsReadTakesNoMemoryAndKeepsWhatItReads) {
  if (!has_vectors()) GTEST_SKIP() << "kernels that normalise what they read need AVX2";
  const std::string text = norm_again_text(
      "  %3: f32[16, 16, 1, 1] = conv2d_grad_weight(%2, %1) {conv=(stride=[1, 1] padding=[0, 0, 0, "
      "0] dilation=[1, 1] groups=1) size=[1, 1] f32_result=true format=contiguous} #backward\n");
  const Planned p(text.c_str());
  EXPECT_EQ(p.home("%1"), Home::kReaders);
  EXPECT_NE(p.plan.offsets[p["%2"]], p.plan.offsets[p["%0"]]);  // which is still alive
  EXPECT_EQ(p.plan.arena_bytes, 2U * 4 * 16 * 8 * 8 * 2);
  // In a recorded program it has a place.
  EXPECT_EQ(plan_memory(p.program, /*copies_results=*/true).homes[p["%1"]], Home::kArena);
  disable_kernels({"cpu_norm_recompute"});
  EXPECT_EQ(plan_memory(p.program).homes[p["%1"]], Home::kArena);
  disable_kernels({});
}

TEST(MemoryPlan, ANormThatOthersReadHasAPlace) {
  const Planned p(
      norm_again_text("  %3: bf16[4, 16, 8, 8] channels_last = mul(%1, %2) #backward\n").c_str());
  EXPECT_EQ(p.home("%1"), Home::kArena);
}

// A norm that computes its statistics, and `readers` of its result.
std::string training_norm_text(const std::string& readers) {
  return R"(program(x: bf16[4, 16, 8, 8] channels_last) {
  %0: bf16[4, 16, 8, 8] channels_last = relu(x)
  %1: bf16[4, 16, 8, 8] channels_last, %2: f32[16], %3: f32[16] = batch_norm(%0, _, _, _, _) {training=true relu=true eps=1e-05}
)" + readers +
         "  return %4\n}\n";
}

const std::string kPooled =
    "  %4: bf16[4, 16, 4, 4] channels_last, %5: u8[4, 16, 4, 4] channels_last = max_pool2d(%1) "
    "{kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}\n";

TEST(MemoryPlan, ATrainingNormThatPoolingReadsKeepsItsStatisticsAlone) {
  if (!has_vectors()) GTEST_SKIP() << "kernels that normalise what they read need AVX2";
  // Statistics that nobody else reads, and what could be written over them or over x.
  const Planned p(
      training_norm_text("  %6: f32[16] = relu(%2)\n  %7: f32[16] = relu(%6) over(%2)\n" + kPooled)
          .c_str());
  EXPECT_EQ(p.home("%1"), Home::kReaders);
  EXPECT_EQ(p.home("%2"), Home::kArena);
  EXPECT_EQ(p.home("%3"), Home::kArena);
  const std::set<std::size_t> places{p.plan.offsets[p["%0"]], p.plan.offsets[p["%2"]],
                                     p.plan.offsets[p["%3"]], p.plan.offsets[p["%5"]]};
  EXPECT_EQ(places.size(), 4U);
  EXPECT_NE(p.plan.blocks[p["%7"]], p["%2"]);
  EXPECT_LT(p.plan.arena_bytes, 2U * 4 * 16 * 8 * 8 * 2);
}

TEST(MemoryPlan, ATrainingNormWithAnotherReaderHasAPlace) {
  const Planned p(
      training_norm_text(kPooled + "  %6: bf16[4, 16, 8, 8] channels_last = relu(%1)\n").c_str());
  EXPECT_EQ(p.home("%1"), Home::kArena);
}

// A norm that a norm computed by its readers reads needs a place of its own.
TEST(MemoryPlan, ANormThatANormByReadersReadsHasAPlace) {
  if (!has_vectors()) GTEST_SKIP() << "kernels that normalise what they read need AVX2";
  const auto planned = [](const char* reader) {
    return Planned(
        concat(
            R"(program(x: bf16[4, 16, 8, 8] channels_last, g: bf16[4, 16, 8, 8] channels_last, mean: f32[16], var: f32[16]) {
  %0: bf16[4, 16, 8, 8] channels_last = batch_norm(x, _, _, mean, var) {training=false relu=false eps=1e-05}
  %1: bf16[4, 16, 8, 8] channels_last = batch_norm_add_relu(g, _, _, mean, var, %0) {training=false relu=true eps=1e-05}
  %2: )",
            reader, "  return %2\n}\n")
            .c_str());
  };
  const Planned stands = planned("bf16[4, 16, 8, 8] channels_last = relu(%1)\n");
  EXPECT_EQ(stands.home("%0"), Home::kReaders);
  EXPECT_EQ(stands.home("%1"), Home::kArena);
  const Planned goes = planned(
      "f32[16, 16, 1, 1] = conv2d_grad_weight(g, %1) {conv=(stride=[1, 1] padding=[0, 0, 0, "
      "0] dilation=[1, 1] groups=1) size=[1, 1] f32_result=true format=contiguous} #backward\n");
  EXPECT_EQ(goes.home("%0"), Home::kArena);
  EXPECT_EQ(goes.home("%1"), Home::kReaders);
}

TEST(MemoryPlan, ViewsKeepTheirBaseAlive) {
  const Planned p(R"(program(x: f32[1024]) {
  %0: f32[1024] = relu(x)
  %1: f32[2, 512] = reshape(%0) {shape=[2, 512]}
  %2: f32[1024] = relu(x)
  %3: f32[2, 512] = relu(%1)
  %4: f32[1024] = relu(%2)
  return %4
}
)");
  EXPECT_EQ(p.plan.blocks[p["%1"]], p["%0"]);
  EXPECT_NE(p.plan.offsets[p["%0"]], p.plan.offsets[p["%2"]]);
}

TEST(MemoryPlan, WritesOverWhatNobodyReadsLater) {
  const Planned p(R"(program(x: f32[1024]) {
  %0: f32[1024] = relu(x)
  %1: f32[1024] = add(%0, x) over(%0)
  %2: f32[1024] = add(%1, x) over(%1)
  %3: f32[1024] = mul(%1, %2)
  return %3
}
)");
  EXPECT_EQ(p.plan.blocks[p["%1"]], p["%0"]);
  EXPECT_EQ(p.plan.blocks[p["%2"]], p["%2"]) << "%1 is read later";
}

TEST(MemoryPlan, DoesNotWriteOverAViewOfAnotherOperand) {
  const Planned p(R"(program(x: f32[4, 4]) {
  %0: f32[4, 4] = relu(x)
  %1: f32[4, 4] strides=[1, 4] = permute(%0) {shape=[1, 0]}
  %2: f32[4, 4] = add(%0, %1) over(%0)
  %3: f32[4, 4] = relu(%2)
  return %3
}
)");
  EXPECT_EQ(p.plan.blocks[p["%2"]], p["%2"]);
}

// The viewed value is read later than the view.
TEST(MemoryPlan, DoesNotWriteOverAViewOfWhatIsReadLater) {
  const Planned p(R"(program(x: f32[4]) {
  %0: f32[4] = relu(x)
  %1: f32[2, 2] = reshape(%0) {shape=[2, 2]}
  %2: f32[2, 2] = exp(%1) over(%1)
  %3: f32[4] = exp(%0)
  return %2, %3
}
)");
  EXPECT_NE(p.plan.blocks[p["%2"]], p.plan.blocks[p["%0"]]);
}

TEST(MemoryPlan, DoesNotWriteOverWhatLiesOtherwise) {
  const Planned p(R"(program(x: f32[1, 2, 3, 3], y: f32[1, 2, 3, 3] channels_last) {
  %0: f32[1, 2, 3, 3] channels_last = exp(y)
  %1: f32[1, 2, 3, 3] = add(x, %0) over(%0)
  %2: f32[1, 2, 3, 3] = exp(%1)
  return %2
}
)");
  EXPECT_NE(p.plan.blocks[p["%1"]], p.plan.blocks[p["%0"]]);
}

TEST(MemoryPlan, InputsAndReturnedValuesAreNeverWrittenOver) {
  const Planned p(R"(program(x: f32[64]) {
  state w: f32[64]
  %0: f32[64] = add(x, w) over(x)
  %1: f32[64] = add(%0, w) over(%0)
  %2: f32[64] = add(w, %1) over(w)
  return %0, %2
}
)");
  EXPECT_EQ(p.plan.blocks[p["%0"]], p["%0"]);
  EXPECT_EQ(p.plan.blocks[p["%1"]], p["%1"]);
  EXPECT_EQ(p.plan.blocks[p["%2"]], p["%2"]);
  EXPECT_EQ(p.home("%0"), Home::kFresh);
}

// Values that are alive at the same time do not overlap, over a whole training step.
TEST(MemoryPlan, NoTwoLivingBlocksOverlap) {
  const auto net = models::create("resnet20", {});
  optim::Sgd optimizer(net->parameters(), {.lr = 0.1});
  auto step = amp::build_train_network(
      *net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
      optimizer, {.level = "O2", .dtype = DType::kBf16});
  Program program;
  step.set_execution(
      [&](const amp::StepBody& body, const amp::StepMode&, std::span<const Tensor> batch) {
        const auto call = [&](std::span<const Tensor> in) {
          body(in);
          return std::vector<Tensor>{};
        };
        program = capture(call, batch);
      });
  step(randn({2, 3, 32, 32}), zeros({2}, DType::kI64));
  const MemoryPlan plan = plan_memory(program);

  // Every node writes its blocks; a reader must find what the writer of its value wrote.
  std::vector<std::pair<std::size_t, std::size_t>> where(program.values.size());
  std::vector<ValueId> owner(plan.arena_bytes / 64, kNoValue);
  constexpr ValueId kScratch = kNoValue - 1;
  const auto cells = [&](ValueId v) {
    const ValueId block = plan.blocks[v];
    const std::size_t first = plan.offsets[block] / 64;
    return std::pair(first, first + (program.spec(block).bytes() + 63) / 64);
  };
  std::size_t checked = 0;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    // Simulates what a kernel writes into the free part while it runs.
    const ArenaRange idle = plan.free_ranges[i];
    ASSERT_LE(idle.offset + idle.bytes, plan.arena_bytes);
    std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(idle.offset / 64), idle.bytes / 64,
                kScratch);
    for (const ValueId input : node.inputs) {
      if (input == kNoValue || plan.homes[input] != Home::kArena) continue;
      const auto [first, last] = cells(input);
      for (std::size_t c = first; c < last; ++c) {
        ASSERT_NE(owner[c], kScratch);
        ASSERT_EQ(plan.blocks[owner[c]], plan.blocks[input]);
        ++checked;
      }
    }
    if (node.op != nullptr && node.op->view != nullptr) continue;
    for (const ValueId output : node.outputs) {
      if (plan.homes[output] != Home::kArena) continue;
      const auto [first, last] = cells(output);
      EXPECT_TRUE(last * 64 <= idle.offset || first * 64 >= idle.offset + idle.bytes);
      std::fill(owner.begin() + static_cast<std::ptrdiff_t>(first),
                owner.begin() + static_cast<std::ptrdiff_t>(last), output);
    }
  }
  EXPECT_GT(checked, 1000U);
  EXPECT_LE(plan.arena_bytes, plan.least_bytes + plan.least_bytes / 100);
}

}  // namespace
}  // namespace mezzo::graph
