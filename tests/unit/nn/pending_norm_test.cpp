// Tests residual networks in 16 bits whose norms are recomputed: they have the bits of those that
// keep all results, in less memory.
#include "tests/unit/pending_norm.h"

#include <memory>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/nn.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/threads.h"

namespace mezzo::nn {
namespace {

using test::Bits;

Conv2dOptions of_kernel(std::int64_t kernel, std::int64_t stride = 1) {
  return {.stride = stride, .padding = kernel / 2, .bias = false};
}

class ResidualBlock final : public Module {
 public:
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1_(in, out, 3, of_kernel(3, stride)),
        norm1_(out),
        conv2_(out, out, 3, of_kernel(3)),
        norm2_(out) {
    add("conv1", conv1_);
    add("norm1", norm1_);
    add("conv2", conv2_);
    add("norm2", norm2_);
    if (in == out && stride == 1) return;
    shortcut_ = std::make_unique<Conv2d>(in, out, 1, of_kernel(1, stride));
    shortcut_norm_ = std::make_unique<BatchNorm2d>(out);
    add("shortcut", *shortcut_);
    add("shortcut_norm", *shortcut_norm_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor inner = norm1_.forward_relu(conv1_(x));
    const Tensor residual = shortcut_ ? (*shortcut_norm_)((*shortcut_)(x)) : x;
    return norm2_.forward_add_relu(conv2_(inner), residual);
  }

 private:
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
  std::unique_ptr<Conv2d> shortcut_;
  std::unique_ptr<BatchNorm2d> shortcut_norm_;
};

// A stem, blocks of these channels, and a convolution that reads the last one. A block with another
// number of channels than the one before has stride 2.
class ResidualNet final : public Module {
 public:
  explicit ResidualNet(std::int64_t channels, const std::vector<std::int64_t>& blocks)
      : stem_(3, channels, 3, of_kernel(3)),
        norm_(channels),
        head_(blocks.empty() ? channels : blocks.back(), 10, 1) {
    add("stem", stem_);
    add("norm", norm_);
    std::int64_t in = channels;
    for (const std::int64_t out : blocks) {
      blocks_.push_back(std::make_unique<ResidualBlock>(in, out, in == out ? 1 : 2));
      add("block" + std::to_string(blocks_.size()), *blocks_.back());
      in = out;
    }
    add("head", head_);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = norm_.forward_relu(stem_(x));
    for (const auto& block : blocks_) y = (*block)(y);
    return head_(y);
  }

 private:
  Conv2d stem_;
  BatchNorm2d norm_;
  std::vector<std::unique_ptr<ResidualBlock>> blocks_;
  Conv2d head_;
};

struct Setting {
  DType lower = DType::kBf16;  // f32: no region
  Shape x{2, 3, 9, 7};
  std::int64_t channels = 17;
  std::vector<std::int64_t> blocks{17, 17, 24, 24, 24};
  std::vector<std::string> recomputed{};
};

struct StepOutcome {
  std::vector<Bits> bits;       // the loss, all gradients and buffers
  std::int64_t held_bytes = 0;  // between the two passes
  std::int64_t peak_bytes = 0;
};

StepOutcome train_once(const Setting& setting, bool training = true) {
  manual_seed(5);
  ResidualNet net(setting.channels, setting.blocks);
  net.train(training);
  for (const std::string& path : setting.recomputed) recompute(*net.find(path));
  const Tensor x = randn(setting.x).set_requires_grad(true);
  StepOutcome outcome;
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  cpu_allocator().reset_peak();
  Tensor loss;
  {
    const bool mixed = is_lower(setting.lower);
    const amp::Autocast region(mixed ? setting.lower : DType::kBf16, mixed);
    const Tensor z = net(x);
    loss = sum(z * randn(z.shape()), {}, false, DType::kF32);
  }
  outcome.held_bytes = cpu_allocator().stats().live_bytes - before;
  loss.backward();
  outcome.peak_bytes = cpu_allocator().stats().peak_bytes - before;
  outcome.bits = {test::bits_of(loss), test::bits_of(x.grad())};
  for (const Tensor& parameter : net.parameters()) {
    EXPECT_TRUE(parameter.grad().defined());
    outcome.bits.push_back(test::bits_of(parameter.grad()));
  }
  for (const NamedTensor& buffer : net.named_buffers()) {
    outcome.bits.push_back(test::bits_of(buffer.tensor));
  }
  return outcome;
}

StepOutcome train_once_keeping(const Setting& setting) {
  const test::Without guard("cpu_norm_recompute");
  return train_once(setting);
}

using NormAgainInNetworks = test::NormAgainTest;

void expect_same_bits(const Setting& setting) {
  test::expect_as_kept([&] { return train_once(setting).bits; }, concat(setting.x));
}

TEST_P(NormAgainInNetworks, ChangesNoBit) {
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    for (const std::int64_t batch : {1, 2, 3, 5}) {
      expect_same_bits({.lower = GetParam(), .x = {batch, 3, 9, 7}});
      expect_same_bits({.lower = GetParam(), .x = {batch, 3, 13, 16}});
    }
  }
}

// Winograd's method in f16 computes 3x3 kernels of many channels, and needs the result.
TEST_P(NormAgainInNetworks, ChangesNoBitForManyChannels) {
  expect_same_bits(
      {.lower = GetParam(), .x = {2, 3, 16, 16}, .channels = 32, .blocks = {32, 32, 40, 40}});
}

TEST_P(NormAgainInNetworks, ChangesNoBitOfRecomputedBlocks) {
  const Setting plain{.lower = GetParam()};
  const std::vector<Bits> want = train_once_keeping(plain).bits;
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{"block2"}, {"block1", "block3", "block4"}, {""}}) {
    Setting setting = plain;
    setting.recomputed = paths;
    expect_same_bits(setting);
    EXPECT_TRUE(train_once(setting).bits == want);
  }
}

TEST_P(NormAgainInNetworks, LeavesInferenceAlone) {
  const Setting setting{.lower = GetParam()};
  const StepOutcome step = train_once(setting, false);
  const test::Without guard("cpu_norm_recompute");
  const StepOutcome kept = train_once(setting, false);
  EXPECT_TRUE(step.bits == kept.bits);
  EXPECT_EQ(step.held_bytes, kept.held_bytes);
  EXPECT_EQ(step.peak_bytes, kept.peak_bytes);
}

std::int64_t bytes_of_result(const Setting& setting) {
  return setting.x[0] * setting.channels * setting.x[2] * setting.x[3] * 2;
}

// For n blocks whose input is a norm's result, all n inner results are given up, then the input of
// the first block, which no residual norm keeps, and every other block's result.
TEST_P(NormAgainInNetworks, GivesUpEveryOtherBlocksResult) {
  for (std::int64_t blocks = 0; blocks < 6; ++blocks) {
    Setting setting{.lower = GetParam(), .x = {4, 3, 16, 16}, .channels = 16};
    setting.blocks.assign(static_cast<std::size_t>(blocks), 16);
    const std::int64_t saved =
        train_once_keeping(setting).held_bytes - train_once(setting).held_bytes;
    EXPECT_EQ(saved, (blocks + 1 + blocks / 2) * bytes_of_result(setting)) << blocks << " blocks";
  }
}

// With a strided shortcut, whose norm's result nobody keeps, the alternation starts again: the
// result of its block is kept, the next one is given up.
TEST_P(NormAgainInNetworks, GivesUpNoResultWithAResidualThatNobodyKeeps) {
  const Setting setting{
      .lower = GetParam(), .x = {4, 3, 16, 16}, .channels = 16, .blocks = {16, 64, 64}};
  const std::int64_t saved =
      train_once_keeping(setting).held_bytes - train_once(setting).held_bytes;
  // 64 channels on a fourth of the pixels have as many elements as 16.
  const std::int64_t inner = 3;
  const std::int64_t stem = 1;
  const std::int64_t last = 1;
  EXPECT_EQ(saved, (inner + stem + last) * bytes_of_result(setting));
}

// The peak is the memory at the start of the backward pass, or one in the middle of an operation.
TEST_P(NormAgainInNetworks, PeaksLower) {
  const Setting setting{
      .lower = GetParam(), .x = {8, 3, 32, 32}, .channels = 16, .blocks = {16, 16, 16, 16}};
  const StepOutcome again = train_once(setting);
  const StepOutcome kept = train_once_keeping(setting);
  EXPECT_GE(kept.peak_bytes - again.peak_bytes, 6 * bytes_of_result(setting));
}

TEST(NormAgainInF32, ChangesNothing) {
  const Setting setting{.lower = DType::kF32};
  const StepOutcome again = train_once(setting);
  const StepOutcome kept = train_once_keeping(setting);
  EXPECT_TRUE(again.bits == kept.bits);
  EXPECT_EQ(again.held_bytes, kept.held_bytes);
  EXPECT_EQ(again.peak_bytes, kept.peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(DTypes, NormAgainInNetworks, testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

}  // namespace
}  // namespace mezzo::nn
