// Graph mode hands statistics from convolutions to the batch normalizations behind them.
#include <memory>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/executable.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatch.h"
#include "mezzo/ops/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

// A bottleneck: the last normalization adds a residual, and another convolution's result lies
// between it and its own.
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

class ExecutableNorms : public testing::TestWithParam<DType> {};

TEST_P(ExecutableNorms, TrainWithTheBitsOfEagerMode) {
  Twins<WideNet> twins([] { return std::make_unique<WideNet>(); }, kSgd,
                       {.level = GetParam() == DType::kF32 ? "O0" : "O2", .dtype = DType::kBf16});
  for (std::uint64_t step = 0; step < 4; ++step) {
    // Switched off and on again: nothing of another run is taken.
    if (step == 2) disable_kernels({"cpu_norm_ahead"});
    if (step == 3) disable_kernels({});
    twins.step(wide_batch(step));
    twins.expect_same_state();
  }
}

INSTANTIATE_TEST_SUITE_P(InEveryDtype, ExecutableNorms, testing::Values(DType::kF32, DType::kBf16));

// The statistics are those of what the convolution gave, not of what became of it.
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
