// Tests that graph mode passes statistics from convolutions to the following batch normalisations.
#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/executable.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

// A bottleneck: the last normalisation adds a residual, and another convolution's result lies
// between it and its own convolution.
class WideNet : public nn::Module {
 public:
  WideNet() {
    add("stem", stem_), add("wide", wide_), add("wide_norm", wide_norm_), add("side", side_);
    add("side_norm", side_norm_), add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = stem_(x);
    const Tensor wide = wide_(y);
    const Tensor side = side_norm_(side_(y));
    return fc_(mean(wide_norm_.forward_add_relu(wide, side), {2, 3}));
  }

 private:
  nn::Conv2d stem_{3, 64, 3, {.padding = 1}};
  nn::Conv2d wide_{64, 256, 1, {.bias = false}};
  nn::BatchNorm2d wide_norm_{256};
  nn::Conv2d side_{64, 256, 1, {.bias = false}};
  nn::BatchNorm2d side_norm_{256};
  nn::Linear fc_{256, 3};
};

Batch wide_batch(std::uint64_t seed) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 5; ++i) labels.push_back(i % 3);
  return {randn({5, 3, 19, 17}, generator), from_values(labels, {5})};
}

// Norms that are read in the forward pass only by pooling, by a convolution with one pixel and by
// another norm: there, none of them gets memory.
class ReadersNet : public nn::Module {
 public:
  ReadersNet() {
    add("stem", stem_), add("stem_norm", stem_norm_), add("small", small_);
    add("small_norm", small_norm_), add("wide", wide_), add("wide_norm", wide_norm_);
    add("side", side_), add("side_norm", side_norm_), add("fc", fc_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor pooled = max_pool2d(stem_norm_.forward_relu(stem_(x)),
                                     {.kernel = 3, .stride = Size2d(2), .padding = 1});
    const Tensor wide = wide_(small_norm_.forward_relu(small_(pooled)));
    const Tensor side = side_norm_(side_(pooled));
    return fc_(mean(wide_norm_.forward_add_relu(wide, side), {2, 3}));
  }

 private:
  nn::Conv2d stem_{3, 32, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d stem_norm_{32};
  nn::Conv2d small_{32, 64, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d small_norm_{64};
  nn::Conv2d wide_{64, 256, 1, {.bias = false}};
  nn::BatchNorm2d wide_norm_{256};
  nn::Conv2d side_{32, 256, 1, {.bias = false}};
  nn::BatchNorm2d side_norm_{256};
  nn::Linear fc_{256, 3};
};

std::ptrdiff_t norms_without_place(const Executable& executable) {
  const Program& program = executable.program();
  return std::ranges::count_if(program.nodes, [&](const Node& node) {
    return (is_training_norm(node) || is_norm_by_given(node)) && node.phase == Phase::kForward &&
           executable.memory().homes[node.outputs[0]] == Home::kReaders;
  });
}

TEST(NormsByReaders, TrainWithTheBitsOfEagerMode) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Twins<ReadersNet> twins([] { return std::make_unique<ReadersNet>(); }, kSgd,
                            {.level = "O2", .dtype = dtype});
    for (std::uint64_t step = 0; step < 4; ++step) {
      // The moments of one step must not be used in the next.
      if (step == 2) disable_kernels({"cpu_norm_ahead"});
      if (step == 3) disable_kernels({});
      twins.step(wide_batch(step));
      twins.expect_same_state();
    }
  }
}

// With the statistics of the batch, and with given ones.
TEST(NormsByReaders, HaveNoPlaceInTheForwardPass) {
  if (!has_fast_bf16()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  const NoGrad no_grad;
  Generator generator(1);
  const auto weight = [&](const Shape& shape) {
    return randn(shape, generator).astype(DType::kBf16);
  };
  const Tensor small = weight({64, 32, 3, 3});
  const Tensor wide = weight({256, 64, 1, 1});
  const Tensor side = weight({256, 32, 1, 1});
  const Tensor x = to_format(weight({5, 32, 19, 17}), Format::kChannelsLast);
  for (const bool training : {true, false}) {
    const auto norm = [&](const Tensor& y, bool relu, const Tensor& residual = {}) {
      const Tensor ones = full({y.size(1)}, 1);
      return batch_norm(y, {}, {},
                        {.training = training,
                         .relu = relu,
                         .residual = residual,
                         .running_mean = ones,
                         .running_var = ones})
          .y;
    };
    const Step step = [&](std::span<const Tensor> in) {
      const Tensor pooled = max_pool2d(norm(in[0], true));
      const Tensor y = norm(conv2d(pooled, small, {}, {.padding = 1}), true);
      const Tensor residual = norm(conv2d(pooled, side), false);
      return std::vector<Tensor>{norm(conv2d(y, wide), true, residual)};
    };
    const std::vector<float> expected = step({&x, 1})[0].to_vector<float>();
    Executable executable(capture(step, {&x, 1}));
    EXPECT_EQ(norms_without_place(executable), 3);
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(executable.run({&x, 1})[0].to_vector<float>(), expected);
    }
  }
}

// A norm's scale changes between the norm and its reader. The norm is then computed in place, as it
// is without AVX2, which kernels that normalise their input need.
TEST(NormsByReaders, AScaleThatHostWorkChangesIsReadBefore) {
  const NoGrad no_grad;
  Generator generator(1);
  const Tensor x =
      to_format(randn({4, 16, 8, 8}, generator), Format::kChannelsLast).astype(DType::kBf16);
  const Tensor scale = full({16}, 2.0);
  for (const HostWorkTime time : {HostWorkTime::kInPlace, HostWorkTime::kCanWait}) {
    const Step step = [&](std::span<const Tensor> in) {
      const Tensor y = batch_norm(in[0], scale, {}, {.training = true}).y;
      const auto change = [&](std::span<const Tensor>) {
        if (time == HostWorkTime::kInPlace) scale.mutable_data<float>()[3] += 1;
        return true;
      };
      do_host_work("change", {}, {}, change, time);
      return std::vector<Tensor>{max_pool2d(y)};
    };
    const Program program = capture(step, {&x, 1});
    fill(scale, 2);
    const std::vector<float> expected = step({&x, 1})[0].to_vector<float>();
    fill(scale, 2);
    Executable executable(program);
    EXPECT_EQ(executable.run({&x, 1})[0].to_vector<float>(), expected);
    const bool can_wait = time == HostWorkTime::kCanWait && has_vectors();
    EXPECT_EQ(norms_without_place(executable), can_wait ? 1 : 0);
  }
}

class ExecutableNorms : public testing::TestWithParam<DType> {};

TEST_P(ExecutableNorms, TrainWithTheBitsOfEagerMode) {
  Twins<WideNet> twins([] { return std::make_unique<WideNet>(); }, kSgd,
                       {.level = GetParam() == DType::kF32 ? "O0" : "O2", .dtype = DType::kBf16});
  for (std::uint64_t step = 0; step < 4; ++step) {
    // Switched off and on again: nothing of another run is used.
    if (step == 2) disable_kernels({"cpu_norm_ahead"});
    if (step == 3) disable_kernels({});
    twins.step(wide_batch(step));
    twins.expect_same_state();
  }
}

INSTANTIATE_TEST_SUITE_P(InEveryDtype, ExecutableNorms, testing::Values(DType::kF32, DType::kBf16));

// The statistics are those of the convolution's output, not of what it became later.
TEST(ExecutableNorms, WhatHostWorkMayChangeIsReadAnew) {
  const NoGrad no_grad;
  Generator generator(1);
  const Tensor x =
      to_format(randn({4, 64, 9, 9}, generator), Format::kChannelsLast).astype(DType::kBf16);
  const Tensor weight = randn({256, 64, 1, 1}, generator).astype(DType::kBf16);
  const Step step = [&](std::span<const Tensor> in) {
    const Tensor y = conv2d(in[0], weight);
    const auto double_it = [](std::span<const Tensor> reads) {
      auto* numbers = reads[0].mutable_data<BFloat16>();
      for (std::int64_t i = 0; i < reads[0].numel(); ++i) {
        numbers[i] = BFloat16(2 * static_cast<float>(numbers[i]));
      }
      return true;
    };
    do_host_work("double", {&y, 1}, {}, double_it);
    return std::vector<Tensor>{batch_norm(y, {}, {}, {.training = true}).mean};
  };
  const std::vector<float> expected = step({&x, 1})[0].to_vector<float>();
  Executable executable(capture(step, {&x, 1}));
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(executable.run({&x, 1})[0].to_vector<float>(), expected);
  }
}

}  // namespace
}  // namespace mezzo::graph
