// Tests numbers of eight bits on a device: codes, scales and histories have the bits of the CPU's,
// products are its products, and trainings follow its trainings.
#include "mezzo/amp/eight_bits.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/gpt.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/delayed_scale.h"
#include "mezzo/ops/scaled_matmul.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const Tensor& tensor) {
  const Tensor host = tensor.to(kCpuDevice);
  const auto* const first = static_cast<const std::uint8_t*>(host.address());
  return {first, first + host.bytes()};
}

// Codes; all NaNs are one, since the sign of a NaN times a NaN is the processor's own choice.
Bytes codes_of(const Tensor& codes) {
  Bytes bytes = bytes_of(codes);
  const int first_nan = codes.dtype() == DType::kE4m3 ? 0x7f : 0x7d;
  for (std::uint8_t& code : bytes) {
    if ((code & 0x7f) >= first_nan) code = 0x7f;
  }
  return bytes;
}

// The bits of f32 numbers; all NaNs are one, since GPUs do not keep what they hold.
std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float value : floats(tensor)) {
    bits.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

// Numbers of both signs over 24 powers of two; the first row is zeros.
Tensor numbers_over_a_range(const Shape& shape, DType dtype) {
  Generator generator(7);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto fraction = static_cast<float>(2 * generator.uniform() - 1);
    const auto power = static_cast<int>(generator.below(24)) - 12;
    const bool is_zero = shape[0] > 1 && i < static_cast<std::size_t>(shape[1]);
    values[i] = is_zero ? 0 : std::ldexp(fraction, power);
  }
  return values.empty() ? empty(shape, dtype) : from_values(values, shape).astype(dtype);
}

// The same with an infinity and a NaN.
Tensor with_what_is_no_number(const Tensor& x) {
  const Tensor wide = copy_of(x.astype(DType::kF32));
  auto* const values = wide.mutable_data<float>();
  values[x.numel() / 3] = -std::numeric_limits<float>::infinity();
  values[x.numel() / 2] = std::numeric_limits<float>::quiet_NaN();
  return wide.astype(x.dtype());
}

void expect_same_cast(const Tensor& x, ScaledCastOptions options) {
  SCOPED_TRACE(concat(x.dtype(), x.shape(), " to ", options.dtype, " by ", options.by,
                      options.columns ? " along columns" : ""));
  const ScaledTensor here = scaled_cast(x, options);
  if (options.scale.defined()) options.scale = options.scale.to(kCard);
  const ScaledTensor there = scaled_cast(x.to(kCard), options);
  EXPECT_TRUE(codes_of(there.codes) == codes_of(here.codes));
  if (options.by == ScaleBy::kBlock) {
    EXPECT_EQ(bytes_of(there.scales), bytes_of(here.scales));
  } else {
    EXPECT_EQ(bits_of(there.scales), bits_of(here.scales));
  }
  if (options.by == ScaleBy::kTensor) {
    EXPECT_EQ(bits_of(there.amax), bits_of(here.amax));
  }
}

class CudaEightBits : public OnCard<> {};

void expect_same_casts(const Tensor& x, DType to) {
  for (const ScaleBy by : kScaleBys) {
    for (const bool columns : {false, true}) {
      expect_same_cast(x, {.dtype = to, .by = by, .columns = columns});
      if (x.numel() == 0) continue;
      expect_same_cast(with_what_is_no_number(x), {.dtype = to, .by = by, .columns = columns});
    }
  }
  expect_same_cast(x, {.dtype = to, .scale = full({1}, 3.7)});
}

TEST_F(CudaEightBits, CastsHaveTheBitsOfTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const Shape& shape :
         {Shape{3, 5}, Shape{64, 96}, Shape{70, 97}, Shape{1, 64}, Shape{300, 520}, Shape{513, 40},
          Shape{9, 3000}, Shape{0, 5}, Shape{5, 0}}) {
      const Tensor x = numbers_over_a_range(shape, dtype);
      for (const DType to : {DType::kE4m3, DType::kE5m2}) expect_same_casts(x, to);
    }
  }
}

// More tiles than thread blocks: each block has several.
TEST_F(CudaEightBits, CastsAlongManyColumnsHaveTheBitsOfTheCpu) {
  const Tensor x = numbers_over_a_range({600, 1001}, DType::kBf16);
  for (const ScaleBy by : {ScaleBy::kLine, ScaleBy::kBlock}) {
    expect_same_cast(x, {.by = by, .columns = true});
  }
}

// An operand of whole numbers from -4 to 4, and scales that are powers of two: then all sums are
// exact in f32, in any order.
ScaledTensor exact_operand(const Shape& shape, DType dtype, ScaleBy by, bool sums_rows) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 2654435761U >> 7U) % 9) - 4;
  }
  ScaledTensor result =
      scaled_cast(from_values(values, shape),
                  {.dtype = dtype, .by = by, .columns = sums_rows && by != ScaleBy::kTensor});
  result.codes = from_values(values, shape).astype(dtype);
  if (by == ScaleBy::kBlock) {
    auto* const codes = result.scales.mutable_data<std::uint8_t>();
    for (std::int64_t i = 0; i < result.scales.numel(); ++i) {
      codes[i] = static_cast<std::uint8_t>(126 + i * 5 % 3);
    }
  } else {
    auto* const scales = result.scales.mutable_data<float>();
    for (std::int64_t i = 0; i < result.scales.numel(); ++i) {
      scales[i] = std::ldexp(1.0F, static_cast<int>(i * 5 % 3) - 1);
    }
  }
  return result;
}

ScaledTensor on_card(ScaledTensor x) {
  x.codes = x.codes.to(kCard);
  x.scales = x.scales.to(kCard);
  return x;
}

// Sizes m, k, n.
void expect_same_product(const Shape& sizes, ScaleBy by, DType dtype_a, DType dtype_b,
                         ScaledMatmulOptions options) {
  const std::int64_t m = sizes[0];
  const std::int64_t k = sizes[1];
  const std::int64_t n = sizes[2];
  SCOPED_TRACE(concat(sizes, " ", dtype_a, " ", dtype_b, " by ", by,
                      options.transpose_a ? " T" : " N", options.transpose_b ? "T" : "N", " to ",
                      options.dtype));
  const ScaledTensor a = exact_operand(options.transpose_a ? Shape{k, m} : Shape{m, k}, dtype_a, by,
                                       options.transpose_a);
  const ScaledTensor b = exact_operand(options.transpose_b ? Shape{n, k} : Shape{k, n}, dtype_b, by,
                                       !options.transpose_b);
  const std::vector<float> expected = floats(scaled_matmul(a, b, options));
  if (options.bias.defined()) options.bias = options.bias.to(kCard);
  EXPECT_EQ(floats(scaled_matmul(on_card(a), on_card(b), options)), expected);
}

void expect_same_products(ScaleBy by, ScaledMatmulOptions options) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    options.dtype = dtype;
    expect_same_product({144, 160, 272}, by, DType::kE4m3, DType::kE4m3, options);
    expect_same_product({144, 96, 80}, by, DType::kE5m2, DType::kE4m3, options);
    expect_same_product({33, 70, 17}, by, DType::kE4m3, DType::kE5m2, options);
  }
}

TEST_F(CudaEightBits, ProductsAreThoseOfTheCpu) {
  for (const ScaleBy by : kScaleBys) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        expect_same_products(by, {.transpose_a = transpose_a, .transpose_b = transpose_b});
      }
    }
    // More tiles to transpose than thread blocks.
    expect_same_product({1040, 1056, 16}, by, DType::kE4m3, DType::kE4m3,
                        {.transpose_a = true, .transpose_b = true, .dtype = DType::kF32});
    expect_same_product({1, 64, 16}, by, DType::kE4m3, DType::kE4m3, {.transpose_b = true});
    expect_same_product({16, 64, 16}, by, DType::kE5m2, DType::kE5m2, {.transpose_b = true});
    expect_same_product({16, 0, 16}, by, DType::kE4m3, DType::kE4m3, {.transpose_b = true});
  }
}

TEST_F(CudaEightBits, ABiasIsAddedBeforeTheResultIsRounded) {
  for (const ScaleBy by : kScaleBys) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const DType of_bias : {DType::kF32, DType::kBf16, DType::kF16}) {
        std::vector<float> values(272);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
        expect_same_product({48, 160, 272}, by, DType::kE4m3, DType::kE4m3,
                            {.transpose_b = true,
                             .dtype = dtype,
                             .bias = from_values(values, {272}).astype(of_bias)});
      }
    }
  }
}

// More scales than one launch takes, and histories of several blocks of threads.
TEST_F(CudaEightBits, DelayedScalesHaveTheBitsOfTheCpu) {
  for (const std::int64_t length : {1, 2, 255, 256, 257, 600}) {
    std::vector<AdvancingScale> here;
    std::vector<AdvancingScale> there;
    for (int i = 0; i < 130; ++i) {
      const DType dtype = i % 2 == 0 ? DType::kE4m3 : DType::kE5m2;
      here.push_back({make_delayed_scale(length, kCpuDevice), dtype, i % 3});
      there.push_back({make_delayed_scale(length, kCard), dtype, i % 3});
    }
    Generator generator(11);
    for (int step = 0; step < 6; ++step) {
      for (std::size_t i = 0; i < here.size(); ++i) {
        float seen = std::ldexp(static_cast<float>(generator.uniform()), step * 3 - 8);
        if (i % 13 == 5) seen = std::numeric_limits<float>::infinity();
        if (i % 13 == 6) seen = std::numeric_limits<float>::quiet_NaN();
        note_amax(here[i].scale, full({1}, seen));
        note_amax(there[i].scale, full({1}, seen).to(kCard));
      }
      mezzo::advance(here);
      mezzo::advance(there);
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(floats(there[i].scale.scale), floats(here[i].scale.scale)) << i;
      EXPECT_EQ(floats(there[i].scale.history), floats(here[i].scale.history)) << i;
    }
  }
}

TEST_F(CudaEightBits, LoadedScalesAreMovedToTheCard) {
  const ScalingRecipe recipe{.scaling = Scaling::kDelayed, .history = 4};
  amp::ScaleHistories trained(recipe);
  const DelayedScale scale = trained.of("fc.weight", kCpuDevice)->grad;
  note_amax(scale, full({1}, 7));
  mezzo::advance(scale, DType::kE4m3, 0);
  amp::ScaleHistories resumed(recipe);
  resumed.load_state(trained.state());
  const DelayedScale moved = resumed.of("fc.weight", kCard)->grad;
  EXPECT_EQ(moved.scale.device(), kCard);
  EXPECT_EQ(floats(moved.scale), floats(scale.scale));
  EXPECT_EQ(floats(moved.history), floats(scale.history));
}

// The card's own recorder, which counts.
class CountingRecorder final : public WorkRecorder {
 public:
  CountingRecorder(Device device, int& recordings)
      : own_(backend_of(device).make_recorder(device)), recordings_(recordings) {}
  Ref<Recording> record(const std::function<void()>& work) override {
    Ref<Recording> recording = own_->record(work);
    ++recordings_;
    return recording;
  }

 private:
  std::unique_ptr<WorkRecorder> own_;
  int& recordings_;
};

struct GptRun {
  std::vector<double> losses;
  std::vector<std::vector<float>> parameters;
  int recordings = 0;
};

// All sizes are multiples of 32, as cuBLASLt needs them.
GptRun train_gpt(Scaling scaling, Device device, bool is_recorded, std::int64_t parts = 1) {
  manual_seed(21);
  models::Gpt net(
      {.vocabulary = 32, .positions = 32, .layers = 1, .heads = 2, .width = 32, .dropout = 0});
  net.to(device);
  ScalingRecipe recipe = usual_recipe(scaling);
  recipe.history = 3;
  amp::set_policy(net, {.level = amp::Level::kO2, .eight_bits = amp::make_eight_bits(recipe)});
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, nn::NextTokenLoss(), optimizer, amp::GradScaler({}, false),
                      {.micro_batches = parts});
  GptRun run;
  if (is_recorded) {
    step.set_execution(graph::captured(
        net, {.make_recorder = [&run](Device card) -> std::unique_ptr<WorkRecorder> {
          return std::make_unique<CountingRecorder>(card, run.recordings);
        }}));
  }
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < 64; ++t) tokens.push_back((t * t + t / 7) % 32);
  const Tensor batch = from_values(tokens, {2, 32}).to(device);
  for (int i = 0; i < 8; ++i) run.losses.push_back(step(batch, batch).loss);
  for (const Tensor& parameter : net.parameters()) run.parameters.push_back(floats(parameter));
  return run;
}

class CudaEightBitTraining : public OnCard<testing::TestWithParam<Scaling>> {};

// A sum in another order moves a number of 16 bits by one in its last place, which may change how
// its code is rounded. The code then differs by 2^-3 of itself, twice e4m3's unit roundoff, and the
// loss by no more than that part of what a step lowered it by in all.
TEST_P(CudaEightBitTraining, FollowsThatOfTheCpu) {
  const GptRun here = train_gpt(GetParam(), kCpuDevice, false);
  const GptRun there = train_gpt(GetParam(), kCard, false);
  EXPECT_LT(here.losses.back(), 0.8 * here.losses.front());
  for (std::size_t i = 0; i < here.losses.size(); ++i) {
    const double lowered = here.losses.front() - here.losses[i];
    const double first = 0x1p-8 * here.losses.front();  // bf16's unit roundoff, for the first step
    EXPECT_NEAR(there.losses[i], here.losses[i], first + 0x1p-3 * std::abs(lowered)) << i;
  }
}

TEST_P(CudaEightBitTraining, IsOneRecordingWithTheBitsOfEagerSteps) {
  for (const std::int64_t parts : {1, 2}) {
    const GptRun eager = train_gpt(GetParam(), kCard, false, parts);
    const GptRun recorded = train_gpt(GetParam(), kCard, true, parts);
    EXPECT_EQ(recorded.losses, eager.losses) << parts << " parts";
    EXPECT_EQ(recorded.parameters, eager.parameters) << parts << " parts";
    EXPECT_EQ(recorded.recordings, 1) << parts << " parts";
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, CudaEightBitTraining, testing::ValuesIn(kScalings),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace mezzo
