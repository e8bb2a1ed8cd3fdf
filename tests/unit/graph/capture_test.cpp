#include "mezzo/graph/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;

Tensor parameter(const Shape& shape) { return randn(shape).set_requires_grad(true); }

TEST(Capture, NotesCallsInTheirOrderWithViewsAndStates) {
  const Tensor weight = parameter({3, 4});
  const auto step = [&](Tensors in) {
    return std::vector<Tensor>{relu(matmul(reshape(in[0], {2, 3}), weight))};
  };
  const Tensor x = randn({6});
  const Program program = capture(step, {&x, 1}, {.names = {{"weight", weight}}});
  verify(program);
  EXPECT_EQ(to_text(program), R"(program(input0: f32[6]) {
  state weight: f32[3, 4]
  %0: f32[2, 3] = reshape(input0) {shape=[2, 3]}
  %1: f32[2, 4] = matmul(%0, weight) {transpose_a=false transpose_b=false f32_result=false}
  %2: f32[2, 4] = relu(%1)
  return %2
}
)");
}

TEST(Capture, ComputesNothing) {
  const Tensor x = zeros({2});
  bool worked = false;
  const auto step = [&](Tensors in) {
    do_host_work("mark", in, {}, [&](Tensors) { return worked = true; });
    return std::vector<Tensor>{relu(in[0])};
  };
  const Program program = capture(step, {&x, 1});
  EXPECT_FALSE(worked);
  ASSERT_EQ(program.nodes.size(), 2U);
  EXPECT_EQ(program.nodes[0].host, "mark");
  EXPECT_EQ(program.nodes[0].inputs, program.inputs);
}

TEST(Capture, GradientsThatAreLeftBecomeOutputsAndNothingStays) {
  const Tensor weight = parameter({3});
  const Tensor x = randn({3});
  const auto step = [&](Tensors in) {
    const Tensor loss = sum(in[0] * weight);
    loss.backward();
    return std::vector<Tensor>{loss};
  };
  const Program program = capture(step, {&x, 1});
  verify(program);
  EXPECT_FALSE(weight.grad().defined());
  ASSERT_EQ(program.leaves.size(), 1U);
  EXPECT_EQ(program.leaves[0].impl(), weight.impl());
  EXPECT_EQ(program.outputs.size(), 2U);
  EXPECT_EQ(program.nodes.front().phase, Phase::kForward);
  EXPECT_EQ(program.nodes.back().phase, Phase::kBackward);
}

TEST(Capture, CastsOfARegionAreNodes) {
  const Tensor weight = parameter({4, 4});
  const Tensor x = randn({4, 4});
  const amp::Autocast region(DType::kBf16);
  const Program program =
      capture([&](Tensors in) { return std::vector<Tensor>{matmul(in[0], weight)}; }, {&x, 1});
  ASSERT_EQ(program.nodes.size(), 3U);
  EXPECT_STREQ(program.nodes[0].op->name, "cast");
  EXPECT_STREQ(program.nodes[1].op->name, "cast");
  EXPECT_EQ(program.spec(program.outputs[0]).dtype, DType::kBf16);
  EXPECT_EQ(program.nodes[2].policy, nullptr);
}

TEST(Capture, DeferredCastsAreNotedAsPolicies) {
  const Tensor weight = parameter({4, 4});
  const Tensor x = randn({4, 4});
  const amp::Autocast region(DType::kBf16);
  const Program program =
      capture([&](Tensors in) { return std::vector<Tensor>{matmul(in[0], weight)}; }, {&x, 1},
              {.defer_casts = true});
  ASSERT_EQ(program.nodes.size(), 1U);
  ASSERT_NE(program.nodes[0].policy, nullptr);
  EXPECT_EQ(program.nodes[0].policy->lower, DType::kBf16);
  EXPECT_EQ(program.spec(program.outputs[0]).dtype, DType::kF32);
}

TEST(Capture, SaysThatAStepDependsOnData) {
  const Tensor x = randn({1});
  const auto step = [](Tensors in) {
    const Tensor y = relu(in[0]);
    return std::vector<Tensor>{y.item() > 0 ? y : in[0]};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("the step depends on data"));
  EXPECT_EQ(capture_hook(), nullptr);
}

TEST(Capture, RefusesToChangeWhatExistsOutside) {
  const Tensor counter = zeros({1});
  const Tensor x = randn({1});
  const auto step = [&](Tensors in) {
    add_into(counter, in[0]);
    return std::vector<Tensor>{};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("which exists outside the step"));
}

// A change without an operation would be made during the capture and in no run.
TEST(Capture, RefusesAStepThatChangesWhatItReads) {
  const Tensor target = zeros({1});
  const Tensor x = randn({1});
  const auto step = [&](Tensors in) {
    const Tensor y = in[0] * target;
    fill(target, 1);
    return std::vector<Tensor>{y};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("is changed by the step itself"));
}

TEST(Capture, RefusesToChangeInputs) {
  const Tensor x = randn({1});
  const auto step = [&](Tensors in) {
    add_into(in[0], in[0]);
    return std::vector<Tensor>{};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("which exists outside the step"));
}

// The result would not lie where the gaps are.
TEST(Capture, RefusesToChangeAPartWithGaps) {
  const Tensor x = randn({4, 8});
  const auto step = [&](Tensors in) {
    const Tensor y = relu(in[0]);
    const Tensor left = slice(y, 1, 0, 4);
    add_into(left, left);
    return std::vector<Tensor>{left};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("with gaps between its elements"));
}

TEST(Capture, RefusesInputsThatAreTrained) {
  const Tensor x = parameter({2});
  const auto step = [&](Tensors in) { return std::vector<Tensor>{in[0] * 2}; };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("requires a gradient, which a captured step does not return"));
  const NoGrad guard;
  EXPECT_NO_THROW(capture(step, {&x, 1}));
}

TEST(Capture, AChangeInPlaceIsANewValueWrittenOverTheOld) {
  const Tensor x = randn({4});
  const auto step = [](Tensors in) {
    const Tensor y = relu(in[0]);
    add_into(y, in[0]);
    return std::vector<Tensor>{y * in[0]};
  };
  const Program program = capture(step, {&x, 1});
  verify(program);
  ASSERT_EQ(program.nodes.size(), 3U);
  EXPECT_EQ(program.nodes[1].over, program.nodes[0].outputs);
  EXPECT_EQ(program.nodes[2].inputs[0], program.nodes[1].outputs[0]);
}

// The view belongs to the earlier contents.
TEST(Capture, RefusesAViewOfWhatWasChangedSince) {
  const Tensor x = randn({4});
  const auto step = [](Tensors in) {
    const Tensor y = relu(in[0]);
    const Tensor view = reshape(y, {2, 2});
    add_into(y, in[0]);
    return std::vector<Tensor>{view * 2};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("which was changed in place since"));
}

// The program knows the changed memory only under the geometry of the change.
TEST(Capture, RefusesTheWholeOfWhatWasChangedInPart) {
  const Tensor x = randn({4});
  const auto step = [](Tensors in) {
    const Tensor y = relu(in[0]);
    add_into(slice(y, 0, 0, 2), slice(in[0], 0, 0, 2));
    return std::vector<Tensor>{y * 2};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("Change and read it through one tensor"));
}

TEST(Capture, RefusesToAddIntoWhatNoOperationMade) {
  const Tensor x = randn({4});
  const auto step = [](Tensors in) {
    const Tensor total = zeros({4});
    for (const double factor : {1., 2.}) add_into(total, in[0] * factor);
    return std::vector<Tensor>{total};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("created in it without an operation, as by zeros()"));
}

TEST(Capture, NamesAResultThatIsUndefined) {
  const Tensor x = randn({4});
  const auto step = [](Tensors in) { return std::vector<Tensor>{in[0] * 2, Tensor()}; };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("result 1 of the step is undefined"));
}

// Values are numbered anew in each capture, so the value could be mistaken for any other.
TEST(Capture, RefusesWhatAnotherCaptureMade) {
  const Tensor x = randn({4});
  Tensor kept;
  const auto keeps = [&](Tensors in) {
    kept = relu(in[0]);
    return std::vector<Tensor>{kept};
  };
  capture(keeps, {&x, 1});
  const auto reads = [&](Tensors in) { return std::vector<Tensor>{in[0] * 2 + kept}; };
  const auto changes = [&](Tensors in) {
    add_into(kept, in[0]);
    return std::vector<Tensor>{};
  };
  for (const Step& step : {Step(reads), Step(changes)}) {
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  capture(step, {&x, 1});
                }),
                HasSubstr("which was kept from another call"));
  }
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)(kept * 2); }),
              HasSubstr("was never computed"));
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)kept.to_vector<double>(); }),
              HasSubstr("was never computed"));
}

// The state would be the same in every run as at the capture.
TEST(Capture, RefusesStateThatOneCallHandsToTheNext) {
  const Tensor x = randn({4});
  Tensor state;
  const auto step = [&](Tensors in) {
    const Tensor y = relu(in[0] + (state.defined() ? state : zeros({4})));
    state = y.detach();
    return std::vector<Tensor>{y};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("pass state as an input"));
}

// A parameter that the program does not know needs no further computation.
TEST(Capture, TakesAResultThatIsKept) {
  const Tensor x = randn({4});
  for (const bool keeps : {false, true}) {
    int calls = 0;
    Tensor kept;
    const auto step = [&](Tensors in) {
      ++calls;
      const Tensor leaf = in[0].detach().set_requires_grad(true);
      const Tensor loss = sum(leaf * leaf);
      loss.backward();
      do_host_work("look", {}, {&leaf, 1}, [](Tensors) { return true; });
      if (keeps) kept = loss;
      return std::vector<Tensor>{loss};
    };
    capture(step, {&x, 1});
    EXPECT_EQ(calls, keeps ? 2 : 1);
  }
}

TEST(Capture, DoesNotNest) {
  const Tensor x = randn({1});
  const auto inner = [](Tensors in) { return std::vector<Tensor>{in[0]}; };
  const auto outer = [&](Tensors in) {
    capture(inner, in);
    return std::vector<Tensor>{};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(outer, {&x, 1});
              }),
              HasSubstr("already being captured"));
}

}  // namespace
}  // namespace mezzo::graph
