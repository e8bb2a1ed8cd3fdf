#include "mezzo/graph/report.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/graph/compile.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/graph/paints_of.h"

namespace mezzo::graph {
namespace {

std::string described(const std::vector<PaintedCall>& calls) {
  std::string text;
  for (const PaintedCall& call : calls) {
    text += concat(call.path, call.path.empty() ? "" : ": ", call.op, ' ', call.dtype, ' ',
                   call.colour, ", ", call.reason, "\n");
  }
  return text;
}

TEST(GraphReport, CallsHaveTheDtypeAndReasonOfTheirPaint) {
  Program program = program_in(R"(program(x: f32[4, 8], t: i64[4]) {
  state w: f32[8, 8]
  %0: f32[4, 8] = linear(x, w, _) @fc [auto/bf16]
  %1: f32[4, 8] = relu(%0) [auto/bf16]
  %2: f32[4, 8] = exp(%1) [auto/bf16]
  host watch(%2)
  %3: f32[4, 8] = cast(%2) {dtype=f32} [auto/bf16]
  %4: f64[4] = cast(t) {dtype=f64} [auto/bf16]
  %5: f32[4, 8] = relu(%3)
  return %5, %4
}
)");
  paint_precision(program);
  EXPECT_EQ(described(painted_calls(program)),
            "fc: linear bf16 white, it gains from 16 bits\nrelu bf16 white, next to linear\nexp "
            "f32 black, it needs f32\ncast f64 none, it is an explicitly requested cast\nrelu f32 "
            "none, outside mixed precision\n");
}

TEST(GraphReport, WithoutPaintCallsTakeWhatComes) {
  const Program program = program_in(R"(program(x: bf16[4, 8], y: f32[4, 8], k: i64[4]) {
  %0: bf16[4, 8] = relu(x)
  %1: f32[4, 8] = cast(%0) {dtype=f32}
  %2: f32[4, 8] = add(%1, y)
  %3: i64[4] = add(k, k)
  return %2, %3
}
)");
  EXPECT_EQ(described(painted_calls(program)),
            "relu bf16 none, outside mixed precision\nadd f32 none, outside mixed precision\nadd "
            "i64 none, outside mixed precision\n");
}

TEST(GraphReport, CountsNodesAndStates) {
  const Program program = program_in(R"(program(x: f32[4, 8]) {
  state w: f32[8, 8]
  state b: f32[8]
  host begin()
  %0: f32[4, 8] = linear(x, w, b)
  %1: f32[4, 8] = relu(%0)
  %2: f32[4, 8] = relu(%1)
  host begin()
  host watch(%2)
  %3: f32[4, 8] = relu_grad(%2, %1) #backward
  host update(%3) #update
  return
}
)");
  const GraphReport report =
      report_on({program, program, forward_part(program), program, {{.name = "none"}}});
  EXPECT_EQ(report.nodes, 8U);
  EXPECT_EQ(report.nodes_in_phase, (std::array<std::size_t, 3>{6, 1, 1}));
  ASSERT_EQ(report.ops.size(), 3U);
  EXPECT_EQ(report.ops[0].name, "relu");
  EXPECT_EQ(report.ops[0].count, 2U);
  EXPECT_EQ(report.ops[1].name, "linear") << "in the order of their names";
  EXPECT_EQ(total(report.ops), 4U);
  EXPECT_EQ(report.host_work[0].name, "begin");
  EXPECT_EQ(total(report.host_work), 4U);
  EXPECT_EQ(report.inputs, 1U);
  EXPECT_EQ(report.parameters, 2U);
  EXPECT_EQ(report.memory.parameters, 4U * (64 + 8));
  EXPECT_EQ(report.calls.size(), report.paint.ops);
  EXPECT_EQ(report.passes.size(), 1U);
}

TEST(GraphReport, EagerMemoryWritesNothingOver) {
  const Program program = program_in(R"(program(x: f32[1024]) {
  %0: f32[1024] = relu(x)
  %1: f32[1024] = add(%0, x) over(%0)
  %2: f32[1024] = add(%1, x) over(%1)
  host watch(%2)
  return
}
)");
  const GraphMemory memory =
      report_on({program, program, forward_part(program), program, {}}).memory;
  EXPECT_EQ(memory.arena, 4096U);
  EXPECT_EQ(memory.least, 4096U);
  EXPECT_EQ(memory.eager, 2U * 4096);
}

struct Reported {
  explicit Reported(const amp::Policy& policy, const PassOptions& passes = {}) {
    amp::SmallNet net;
    const amp::Batch batch = amp::small_batch(1);
    const Step step = [&](std::span<const Tensor> inputs) {
      cross_entropy(amp::forward(net, inputs[0], policy), inputs[1]).backward();
      return std::vector<Tensor>{};
    };
    const Tensor inputs[] = {batch.images, batch.labels};
    const CompileOptions options{.networks = {&net}, .passes = passes};
    report = report_on(capture_programs(step, inputs, options));
    parameters = net.parameters().size();
  }

  std::size_t computing_in(DType dtype) const {
    return static_cast<std::size_t>(std::ranges::count(report.calls, dtype, &PaintedCall::dtype));
  }

  GraphReport report;
  std::size_t parameters = 0;
};

TEST(GraphReport, OfACapturedStep) {
  const Reported reported({.level = amp::Level::kO2, .lower = DType::kBf16});
  const GraphReport& report = reported.report;
  EXPECT_EQ(report.calls.size(), report.paint.ops) << "the passes take no call of the network away";
  EXPECT_GT(reported.computing_in(DType::kBf16), 0U);
  EXPECT_EQ(reported.computing_in(DType::kBf16), report.paint.ops_lower);
  EXPECT_EQ(reported.computing_in(DType::kF32), report.paint.ops_f32);
  EXPECT_EQ(report.parameters, reported.parameters);
  EXPECT_GT(report.memory.parameter_copies, 0U);
  EXPECT_LE(report.memory.least, report.memory.arena);
  EXPECT_LE(report.memory.least, report.memory.eager);
  EXPECT_EQ(report.passes.front().name, "paint_precision");
}

TEST(GraphReport, NothingIsCastAtO0) {
  const Reported reported({.level = amp::Level::kO0});
  EXPECT_EQ(reported.report.paint.casts, 0U);
  EXPECT_EQ(reported.report.paint.parameter_casts, 0U);
  EXPECT_EQ(reported.computing_in(DType::kBf16), 0U);
  EXPECT_EQ(reported.report.memory.parameter_copies, 0U);
}

TEST(GraphReport, ModulesThatAreSetAreTheReason) {
  amp::SmallNet net;
  const amp::Batch batch = amp::small_batch(1);
  const amp::Policy policy =
      amp::apply_options(net, {.level = amp::Level::kO2, .lower = DType::kBf16},
                         {.keep_float32 = {"fc"}, .lower = {"bn"}});
  const Step step = [&](std::span<const Tensor> inputs) {
    return std::vector{amp::forward(net, inputs[0], policy)};
  };
  const Tensor inputs[] = {batch.images};
  const GraphReport report = report_on(capture_programs(step, inputs, {.networks = {&net}}));
  const std::string text = described(report.calls);
  EXPECT_THAT(text, testing::HasSubstr("fc: linear f32 black, its module is set to f32\n"));
  EXPECT_THAT(text, testing::HasSubstr("bn: batch_norm bf16 white, everything is cast here\n"));
  EXPECT_THAT(text, testing::HasSubstr("relu bf16 white, level O2\n"));
}

// Padding in the dtype of the tensor to which it is concatenated.
class Padded final : public nn::Module {
 public:
  Padded() { add("conv", conv_), add("fc", fc_); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv_(x);
    const Tensor padding = zeros({y.size(0), 1, y.size(2), y.size(3)}, y.dtype());
    return fc_(flatten(relu(cat(std::vector{y, padding}, 1)), 1));
  }

 private:
  nn::Conv2d conv_{1, 3, 3};
  nn::Linear fc_{4 * 6 * 6, 3};
};

TEST(GraphReport, TensorsOfTheNetworksOwnHaveTheDtypeThatTheyRunWith) {
  Padded net;
  const amp::Batch batch = amp::small_batch(1);
  const amp::Policy policy = amp::apply_options(
      net, {.level = amp::Level::kAuto, .lower = DType::kBf16}, {.keep_float32 = {"fc"}});
  const Step step = [&](std::span<const Tensor> inputs) {
    cross_entropy(amp::forward(net, inputs[0], policy), inputs[1]).backward();
    return std::vector<Tensor>{};
  };
  const Tensor inputs[] = {batch.images, batch.labels};
  const GraphReport report = report_on(capture_programs(step, inputs, {.networks = {&net}}));
  EXPECT_EQ(report.paint.ops_f32, 2U) << "linear and the loss";
  EXPECT_EQ(std::ranges::count(report.calls, DType::kF32, &PaintedCall::dtype), 2)
      << described(report.calls);
}

// The dtypes are then those of autocast.
TEST(GraphReport, WithoutThePassThatPaints) {
  const amp::Policy policy{.level = amp::Level::kO2, .lower = DType::kBf16};
  const Reported painted(policy);
  const Reported unpainted(policy, {.disabled = {"paint_precision"}});
  ASSERT_EQ(unpainted.report.calls.size(), painted.report.calls.size());
  for (std::size_t i = 0; i < painted.report.calls.size(); ++i) {
    EXPECT_EQ(unpainted.report.calls[i].dtype, painted.report.calls[i].dtype);
    EXPECT_EQ(unpainted.report.calls[i].colour, "none");
  }
}

}  // namespace
}  // namespace mezzo::graph
