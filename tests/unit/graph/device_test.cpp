// Tests programs on devices other than the CPU. A capture computes nothing, so tensors without
// elements are enough and no GPU is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/graph/capture.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;

constexpr Device kCard{DeviceType::kCuda, 1};

Tensor on_card(const Shape& shape) { return stand_in(ValueSpec::dense(shape, DType::kF32), kCard); }

struct Layer {
  Tensor weight = on_card({5, 3}).set_requires_grad(true);

  std::vector<Tensor> operator()(Tensors in) const {
    const Tensor y = relu(matmul(in[0], weight));
    EXPECT_EQ(y.device(), kCard);
    return {y};
  }
};

TEST(ProgramsOnDevices, KnowTheirDevice) {
  const Layer layer;
  const Tensor x = on_card({2, 5});
  const Program program = capture(layer, {&x, 1});
  EXPECT_EQ(program.device, kCard);
  EXPECT_EQ(forward_part(program).device, kCard);
  verify(program);
  EXPECT_THAT(to_text(program), HasSubstr("program(input0: f32[2, 5]) on cuda:1 {\n"));
}

TEST(ProgramsOnDevices, AreReadFromText) {
  const std::string text = "program(x: f32[2]) on cuda:1 {\n  return x\n}\n";
  const Program program = parse_program(text);
  EXPECT_EQ(program.device, kCard);
  EXPECT_EQ(to_text(program), text);
  EXPECT_THAT(message_of<ArgumentError>([] { parse_program("program() on mars {\n"); }),
              HasSubstr("expected a device: cpu, cuda or cuda:1, found \"mars {\""));
}

TEST(ProgramsOnDevices, LieOnOneDevice) {
  const Layer layer;
  const std::vector<Tensor> inputs{on_card({2, 5}), ones({2})};
  const auto step = [&](Tensors in) { return layer(in); };
  EXPECT_THAT(message_of<ArgumentError>([&] { capture(step, inputs); }),
              HasSubstr("[capture] input1, f32[2], is on cpu, what the step used before is on "
                        "cuda:1. A program runs on one device: use to()"));
}

TEST(ProgramsOnDevices, CallsWithOperandsElsewhereAreTheErrorOfTheCall) {
  const Tensor x = on_card({2, 5});
  const auto step = [&](Tensors in) { return std::vector<Tensor>{matmul(in[0], ones({5, 3}))}; };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("[matmul] inputs are on different devices"));
}

TEST(ProgramsOnDevices, WhatHostWorkReadsIsThereToo) {
  const Tensor x = on_card({2, 5});
  const Tensor elsewhere = ones({1});
  const auto step = [&](Tensors in) {
    do_host_work("look", {&elsewhere, 1}, {}, [](Tensors) { return true; });
    return std::vector<Tensor>{relu(in[0])};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("const0, f32[1], is on cpu"));
}

TEST(ProgramsOnDevices, VerifiedStatesAreThere) {
  const Layer layer;
  const Tensor x = on_card({2, 5});
  Program program = capture(layer, {&x, 1});
  program.device = kCpuDevice;
  EXPECT_THAT(message_of<ArgumentError>([&] { verify(program); }),
              HasSubstr("const0 is not on cpu like the program"));
}

TEST(ProgramsOnDevices, BlocksOfAnArenaAreAlignedAsTheDeviceWants) {
  const auto plan_on = [](std::string_view device) {
    return plan_memory(parse_program(concat("program(x: f32[2])", device, R"( {
  %0: f32[2] = relu(x)
  %1: f32[2] = relu(%0)
  %2: f32[2] = relu(%1)
  return
}
)")));
  };
  EXPECT_EQ(plan_on("").arena_bytes, 128);
  EXPECT_EQ(plan_on(" on cuda").arena_bytes, 512);
}

TEST(ProgramsOnDevices, RunWithInputsThere) {
  const Tensor x = ones({2});
  Executable executable(
      capture([](Tensors in) { return std::vector<Tensor>{in[0] * 2}; }, {&x, 1}));
  const Tensor elsewhere = on_card({2});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                executable.run({&elsewhere, 1});
              }),
              HasSubstr("[graph] input 0 is on cuda:1, the step was captured on cpu"));
}

// The device may still run the work when the host continues, so no other program may get the
// memory.
TEST(ProgramsOnDevices, KeepTheirArena) {
  const auto doubled = [](Tensors in) { return std::vector<Tensor>{in[0] * 2}; };
  const Tensor x = on_card({2});
  EXPECT_TRUE(Executable(capture(doubled, {&x, 1})).keeps_arena());
  const Tensor here = ones({2});
  EXPECT_FALSE(Executable(capture(doubled, {&here, 1})).keeps_arena());
}

}  // namespace
}  // namespace mezzo::graph
