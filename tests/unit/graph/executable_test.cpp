#include "mezzo/graph/executable.h"

#include <optional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;
using Values = std::vector<double>;

std::vector<Tensor> run(Executable& executable, const Tensor& x) { return executable.run({&x, 1}); }

// A hidden layer in bf16, with views and a constant.
struct TwoLayers {
  Tensor first = randn({5, 8}).set_requires_grad(true);
  Tensor second = randn({8, 3}).set_requires_grad(true);

  std::vector<Tensor> operator()(Tensors in) const {
    const Tensor hidden = relu(matmul(cast(in[0], DType::kBf16), cast(first, DType::kBf16)));
    const Tensor shifted = add(reshape(hidden, {2, 2, 8}), full({1}, 0.5, DType::kBf16));
    return {matmul(reshape(shifted, {4, 8}), cast(second, DType::kBf16))};
  }
};

TEST(Executable, GivesTheBitsOfTheEagerStepForNewInputs) {
  const TwoLayers step;
  const Tensor x = randn({4, 5});
  Executable executable(capture(step, {&x, 1}));
  for (int i = 0; i < 3; ++i) {
    const Tensor input = randn({4, 5});
    const Tensor expected = step({&input, 1})[0];
    EXPECT_EQ(run(executable, input)[0].to_vector<double>(), expected.to_vector<double>());
  }
}

TEST(Executable, SeesParametersThatWereEdited) {
  const TwoLayers step;
  const Tensor x = randn({4, 5});
  Executable executable(capture(step, {&x, 1}));
  run(executable, x);
  fill(step.first, 0.25);
  const Tensor expected = step({&x, 1})[0];
  EXPECT_EQ(run(executable, x)[0].to_vector<double>(), expected.to_vector<double>());
}

TEST(Executable, WhatItReturnsIsTheCallers) {
  const Tensor x = ones({3});
  Executable executable(capture(
      [](Tensors in) {
        const Tensor y = in[0] * 2;
        return std::vector<Tensor>{y, reshape(y, {3, 1}), in[0]};
      },
      {&x, 1}));
  const std::vector<Tensor> first = run(executable, x);
  const std::vector<Tensor> second = run(executable, full({3}, 5));
  EXPECT_EQ(first[0].to_vector<double>(), (Values{2, 2, 2}));
  EXPECT_EQ(first[1].to_vector<double>(), (Values{2, 2, 2}));
  EXPECT_EQ(second[0].to_vector<double>(), (Values{10, 10, 10}));
  EXPECT_EQ(second[2].to_vector<double>(), (Values{5, 5, 5}));
}

TEST(Executable, GradientsReachTheirLeaves) {
  const Tensor weight = randn({3}).set_requires_grad(true);
  const Tensor x = randn({3});
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    return std::vector<Tensor>{};
  };
  Executable executable(capture(step, {&x, 1}));
  run(executable, x);
  EXPECT_EQ(weight.grad().to_vector<double>(), x.to_vector<double>());
}

// Also in the middle of a block, and far beyond the limit of 32 bits.
TEST(Executable, DropsTheSameNumbersAsTheEagerStep) {
  const auto step = [](Tensors in) {
    return std::vector<Tensor>{dropout(dropout(in[0], 0.3, true), 0.5, true)};
  };
  const RandomPosition begin{0x9E3779B97F4A7C15U, (1ULL << 40U) + 5};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
    const Tensor x = ones({50}).astype(dtype);
    default_generator().set_position({1, 3});
    Executable executable(capture(step, {&x, 1}));
    default_generator().set_position(begin);
    const Values first = run(executable, x)[0].to_vector<double>();
    const Values second = run(executable, x)[0].to_vector<double>();
    const RandomPosition after = default_generator().position();
    default_generator().set_position(begin);
    EXPECT_EQ(step({&x, 1})[0].to_vector<double>(), first) << name_of(dtype);
    EXPECT_EQ(step({&x, 1})[0].to_vector<double>(), second) << name_of(dtype);
    EXPECT_EQ(default_generator().position(), after);
    EXPECT_NE(first, second);
  }
}

// The step reserves random words that no call of the program uses.
TEST(Executable, DrawsWhatTheStepSetsAside) {
  const Tensor x = ones({2});
  const auto step = [](Tensors in) {
    default_generator().reserve(8);
    return std::vector<Tensor>{relu(in[0])};
  };
  default_generator().set_position({1, 16});
  Executable executable(capture(step, {&x, 1}));
  run(executable, x);
  EXPECT_EQ(default_generator().position(), (RandomPosition{1, 24}));
}

TEST(Executable, HostWorkKeepsItsPlaceAndMayEndTheRun) {
  std::vector<double> seen;
  double last = 2;
  const Tensor x = ones({1});
  const auto step = [&](Tensors in) {
    const Tensor y = in[0] * 3;
    do_host_work("look", {&y, 1}, {}, [&](Tensors reads) {
      seen.push_back(reads[0].item());
      return reads[0].item() < last;
    });
    const Tensor z = y + 1;
    do_host_work("look again", {&z, 1}, {}, [&](Tensors reads) {
      seen.push_back(reads[0].item());
      return true;
    });
    return std::vector<Tensor>{z};
  };
  Executable executable(capture(step, {&x, 1}));
  EXPECT_TRUE(run(executable, x).empty());
  EXPECT_EQ(seen, (Values{3}));
  last = 10;
  EXPECT_EQ(run(executable, x)[0].item(), 4);
  EXPECT_EQ(seen, (Values{3, 3, 4}));
}

// Clipping and unscaling replace gradients: later work must see the new ones, the next run must
// not.
TEST(Executable, HostWorkMayReplaceGradients) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  std::vector<Values> seen;
  const Tensor x = full({2}, 3);
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    do_host_work("replace", {}, {&weight, 1}, [&](Tensors) {
      seen.push_back(weight.grad().to_vector<double>());
      weight.set_grad(full({2}, -1));
      return true;
    });
    do_host_work("read", {}, {&weight, 1}, [&](Tensors) {
      seen.push_back(weight.grad().to_vector<double>());
      return true;
    });
    weight.clear_grad();
    return std::vector<Tensor>{};
  };
  Executable executable(capture(step, {&x, 1}));
  for (int i = 0; i < 2; ++i) run(executable, x);
  EXPECT_EQ(seen, (std::vector<Values>{{3, 3}, {-1, -1}, {3, 3}, {-1, -1}}));
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Executable, ReplacedGradientsAreSeenThroughViews) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  const Tensor x = full({2}, 3);
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    do_host_work("replace", {}, {&weight, 1}, [&](Tensors) {
      weight.set_grad(full({2}, -1));
      return true;
    });
    const Tensor seen = reshape(weight.grad(), {2, 1}) * 1;
    zero_grad({&weight, 1});
    return std::vector<Tensor>{seen};
  };
  Executable executable(capture(step, {&x, 1}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run(executable, x)[0].to_vector<double>(), (Values{-1, -1}));
  }
}

TEST(Executable, RefusesReplacedGradientsThatCallsCannotRead) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  const Tensor x = full({2}, 3);
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    do_host_work("widen", {}, {&weight, 1}, [&](Tensors) {
      weight.set_grad(full({2}, -1, DType::kF64));
      return true;
    });
    return std::vector<Tensor>{weight.grad() * 2};
  };
  Executable executable(capture(step, {&x, 1}));
  EXPECT_THAT(message_of<ArgumentError>([&] { run(executable, x); }),
              HasSubstr("widen made a gradient f64[2], but calls after it were captured for f32"));
}

// Adding to the old gradient would differ from the eager step, and so would dropping it.
TEST(Executable, RefusesGradientsOfTheRunBefore) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  const Tensor x = full({2}, 3);
  for (const bool drops : {false, true}) {
    const auto step = [&](Tensors in) {
      if (drops) zero_grad({&weight, 1});
      sum(in[0] * weight).backward();
      return std::vector<Tensor>{};
    };
    weight.clear_grad();
    Executable executable(capture(step, {&x, 1}));
    run(executable, x);
    if (drops) {
      EXPECT_NO_THROW(run(executable, x));
    } else {
      EXPECT_THAT(message_of<ArgumentError>([&] { run(executable, x); }),
                  HasSubstr("has a gradient from before the run"));
    }
    EXPECT_EQ(weight.grad().to_vector<double>(), (Values{3, 3}));
  }
}

// Also in a step that leaves no gradients, since zero_grad() after the update drops its own.
TEST(Executable, RefusesGradientsFromBeforeAnUpdate) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  optim::Sgd sgd({weight}, {.lr = 0.5});
  const Tensor x = full({2}, 3);
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    sgd.step();
    sgd.zero_grad();
    return std::vector<Tensor>{};
  };
  Executable executable(capture(step, {&x, 1}));
  EXPECT_NO_THROW(run(executable, x));
  weight.set_grad(ones({2}));
  EXPECT_THAT(message_of<ArgumentError>([&] { run(executable, x); }),
              HasSubstr("has a gradient from before the run"));
}

// Whether the caller of a run records or not.
TEST(Executable, HostWorkRecordsIfTheStepDid) {
  const Tensor x = ones({2});
  for (const bool records : {false, true}) {
    bool recorded = !records;
    const auto step = [&](Tensors in) {
      do_host_work("look", {}, {}, [&](Tensors) {
        recorded = grad_enabled();
        return true;
      });
      return std::vector<Tensor>{relu(in[0])};
    };
    std::optional<GradMode> mode(std::in_place, records);
    Executable executable(capture(step, {&x, 1}));
    mode.reset();
    const GradMode other(!records);
    run(executable, x);
    EXPECT_EQ(recorded, records);
  }
}

// Calls of host work are recorded and cast as if they were where the work was noted.
TEST(Executable, HostWorkIsDoneInItsRegion) {
  const Tensor weight = ones({2, 2}).set_requires_grad(true);
  const Tensor x = ones({2, 2});
  DType dtype = DType::kF32;
  const auto step = [&](Tensors in) {
    const NoGrad guard;
    const amp::Autocast region(DType::kBf16);
    do_host_work("grow", {}, {}, [&](Tensors) {
      dtype = matmul(x, x).dtype();
      add_into(weight, x);
      return true;
    });
    return std::vector<Tensor>{in[0] * 1};
  };
  Executable executable(capture(step, {&x, 1}));
  EXPECT_NO_THROW(run(executable, x));
  EXPECT_EQ(weight.to_vector<double>(), Values(4, 2));
  EXPECT_EQ(dtype, DType::kBf16);
}

TEST(Executable, AnExceptionLeavesNoGradientsAndTheNextRunWorks) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  bool fails = true;
  const Tensor x = full({2}, 3);
  const auto step = [&](Tensors in) {
    sum(in[0] * weight).backward();
    do_host_work("fail", {}, {&weight, 1}, [&](Tensors) {
      if (fails) fail("test", "planted");
      return true;
    });
    weight.clear_grad();
    return std::vector<Tensor>{in[0] * 2};
  };
  Executable executable(capture(step, {&x, 1}));
  EXPECT_THAT(message_of([&] { run(executable, x); }), HasSubstr("planted"));
  EXPECT_FALSE(weight.grad().defined());
  fails = false;
  EXPECT_EQ(run(executable, x)[0].to_vector<double>(), (Values{6, 6}));
}

TEST(Executable, RefusesOtherInputs) {
  const Tensor x = ones({3});
  Executable executable(
      capture([](Tensors in) { return std::vector<Tensor>{relu(in[0])}; }, {&x, 1}));
  EXPECT_THAT(message_of<ArgumentError>([&] { run(executable, ones({4})); }),
              HasSubstr("input 0 is f32[4], the step was captured for f32[3]"));
  EXPECT_THAT(message_of<ArgumentError>([&] { executable.run({}); }), HasSubstr("has 1 inputs"));
  const Tensor trained = ones({3}).set_requires_grad(true);
  EXPECT_THAT(message_of<ArgumentError>([&] { run(executable, trained); }),
              HasSubstr("requires a gradient"));
  const NoGrad guard;
  EXPECT_NO_THROW(run(executable, trained));
}

// A read after the update could be joined with one before it.
TEST(Executable, RefusesInputsThatTheStepUpdates) {
  const Tensor w = ones({2, 2}).set_requires_grad(true);
  optim::Sgd sgd({w}, {.lr = 0.5});
  const Step step = [&](Tensors in) {
    const Tensor before = sum(in[0] * 2);
    sum(w * w).backward();
    sgd.step();
    sgd.zero_grad();
    return std::vector<Tensor>{before, sum(in[0] * 2)};
  };
  const Tensor shares = reshape(w.detach(), {4});
  Executable executable(capture(step, {&shares, 1}));
  EXPECT_THAT(message_of<ArgumentError>([&] {
                executable.run({&shares, 1});
              }),
              HasSubstr("input 0, f32[4], lies in the memory of a parameter"));
  EXPECT_EQ(w.to_vector<double>(), (Values{1, 1, 1, 1}));
  const Tensor copy = shares * 1;
  EXPECT_EQ(executable.run({&copy, 1})[1].item(), 8);
  EXPECT_EQ(w.to_vector<double>(), (Values{0, 0, 0, 0}));
}

TEST(Executable, RefusesProgramsThatWereOnlyRead) {
  EXPECT_THAT(message_of<ArgumentError>([] {
                Executable(
                    parse_program("program(x: f32[2]) {\n  state w: f32[2]\n"
                                  "  %0: f32[2] = mul(x, w)\n  return %0\n}\n"));
              }),
              HasSubstr("the state w has no tensor"));
}

TEST(Executable, ComputesEmptyTensors) {
  const Tensor x = zeros({0, 3});
  Executable executable(
      capture([](Tensors in) { return std::vector<Tensor>{relu(in[0])}; }, {&x, 1}));
  EXPECT_EQ(run(executable, x)[0].shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace mezzo::graph
