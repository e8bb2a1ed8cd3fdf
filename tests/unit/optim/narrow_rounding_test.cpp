// Tests how state is rounded to bf16 and e4m3: the definition, bit for bit and on every instruction
// set, its mean, and what becomes of zeros and of numbers that are not finite.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/update/narrow_state.h"
#include "tests/unit/every_target.h"
#include "tests/unit/optim/random_bits.h"
#include "tests/unit/optim/steps.h"
#include "tests/unit/special_values.h"
#include "tests/unit/threads.h"

namespace mezzo::optim {
namespace {

constexpr RandomPosition kStatePosition{0x123456789abcdefULL, 40};

// State as an update leaves it.
struct Stored {
  Tensor numbers;
  Tensor scales;
};

Stored empty_state(const Shape& shape, DType dtype) {
  return {zeros(shape, dtype),
          dtype == DType::kE4m3 ? zeros({scales_of(shape.numel())}) : Tensor()};
}

// Rounds values that are not squares: the first momentum of SGD is the gradient.
Stored round_linear(const Tensor& values, DType dtype, RandomPosition position = kStatePosition) {
  const Stored stored = empty_state(values.shape(), dtype);
  UpdateTensors t =
      updates_of(std::vector<SgdTensors>{{zeros(values.shape()), values, Tensor()}}, {})[0];
  t.slots[0] = stored.numbers;
  t.scales[0] = stored.scales;
  t.state_random = position;
  update_step({&t, 1}, update_of(SgdStep{.lr = 0, .momentum = 0.5}));
  return stored;
}

// Rounds the squares of values, which are the second moment of Adam if nothing of an old one stays.
Stored round_squares(const Tensor& values, DType dtype, RandomPosition position = kStatePosition) {
  const Stored first = empty_state(values.shape(), dtype);
  const Stored second = empty_state(values.shape(), dtype);
  UpdateTensors t{.param = zeros(values.shape()), .grad = values};
  t.slots = {first.numbers, second.numbers};
  t.scales = {first.scales, second.scales};
  t.state_random = position;
  const rules::Adam<false>::Factors factors{.way = 1,
                                            .beta2 = 0,
                                            .one_minus_beta2 = 1,
                                            .eps = 1,
                                            .least = 0,
                                            .weight_decay = 0,
                                            .shrink = 1};
  const rules::Adam<false>::Own own{.step_size = 0, .correction = 1};
  t.own = flat::RuleNumbers<flat::kMostOwn>(own);
  update_step({&t, 1},
              {&kRuleOf<rules::Adam<false>>, flat::RuleNumbers<flat::kMostFactors>(factors)});
  return second;
}

// The numbers that state stands for, by core/float8.h and core/half.h.
std::vector<float> meaning_of(const Stored& stored, bool is_square) {
  std::vector<float> values = stored.numbers.to_vector<float>();
  if (!stored.scales.defined()) return values;
  const auto scales = stored.scales.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= scales[i / kStateBlock];
    if (is_square) values[i] *= values[i];
  }
  return values;
}

// The neighbours of 0 to 448 in e4m3.
struct Neighbours {
  float low;
  float high;
};
Neighbours neighbours_of(float v) {
  const int last = std::max(v == 0 ? -9 : std::ilogb(v) - 3, -9);
  const double down = std::floor(std::ldexp(static_cast<double>(v), -last));
  return {static_cast<float>(std::ldexp(down, last)),
          static_cast<float>(std::ldexp(down + 1, last))};
}

// The definition: away from zero with the probability of the part that is cut off, to 16 bits, or
// of the part of the square.
float defined_in_e4m3(float v, bool is_square, std::uint32_t random) {
  const float magnitude = std::min(std::abs(v), 448.0F);
  const auto [low, high] = neighbours_of(magnitude);
  const double unit = (random + 0.5) * 0x1p-16;
  if (is_square) {
    const float between = (high - low) * (high + low);
    const float above = (magnitude - low) * (magnitude + low);
    const float part = static_cast<float>(unit) * between;
    return magnitude > 0 ? std::max(0x1p-9F, part < above ? high : low) : 0;
  }
  const double cut = (static_cast<double>(magnitude) - low) / (static_cast<double>(high) - low);
  const bool is_up = magnitude < 0x1p-6F ? unit < cut : cut + unit >= 1;
  return std::copysign(is_up ? high : low, v);
}

// Values of many magnitudes, also in one block, and a block that ends early.
Tensor many_state_values() {
  constexpr std::int64_t kCount = 5003;
  Generator generator(7);
  const Tensor values = randn({kCount}, generator);
  float* data = values.mutable_data<float>();
  for (std::int64_t i = 0; i < kCount; ++i) {
    data[i] *= static_cast<float>(std::ldexp(1, static_cast<int>(i / 512 - i % 23)));
  }
  std::fill(data + 1024, data + 1280, 0.0F);  // a block of zeros
  data[0] = 448;
  data[1] = 2.5F;  // one of e4m3's numbers
  return values;
}

class NarrowRounding : public test::OnEveryTarget {};

void expect_definition(bool is_square) {
  const Tensor values = many_state_values();
  const auto in = values.to_vector<float>();
  const Stored stored =
      is_square ? round_squares(values, DType::kE4m3) : round_linear(values, DType::kE4m3);
  const auto codes = stored.numbers.to_vector<float>();
  const auto scales = stored.scales.to_vector<float>();
  RandomPosition position = kStatePosition;
  if (is_square) position.offset += static_cast<std::uint64_t>(state_words(values.numel()));
  for (std::size_t begin = 0; begin < in.size(); begin += kStateBlock) {
    const std::size_t end = std::min(in.size(), begin + kStateBlock);
    float extent = 0;
    for (std::size_t i = begin; i < end; ++i) extent = std::max(extent, std::abs(in[i]));
    if (is_square) extent = std::sqrt(extent * extent);
    ASSERT_EQ(scales[begin / kStateBlock], extent / 448);
    const float factor = extent == 0 ? 0 : 448 / extent;
    for (std::size_t i = begin; i < end; ++i) {
      const float v = is_square ? std::sqrt(in[i] * in[i]) : in[i];
      const float want = defined_in_e4m3(v * factor, is_square, test::bits_at(position, i));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(codes[i]), std::bit_cast<std::uint32_t>(want))
          << i << ": " << v * factor << " gave " << codes[i] << ", not " << want;
    }
  }
}

TEST_P(NarrowRounding, IsRoundedToE4m3ByItsDefinition) {
  for (const int threads : {1, 3}) {
    const test::Threads guard(threads);
    expect_definition(false);
    expect_definition(true);
  }
}

TEST_P(NarrowRounding, IsRoundedToBf16ByItsDefinition) {
  const Tensor values = many_state_values();
  const auto in = values.to_vector<float>();
  const auto got = round_linear(values, DType::kBf16).numbers.to_vector<float>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint32_t sum =
        std::bit_cast<std::uint32_t>(in[i]) + test::bits_at(kStatePosition, i);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), sum & 0xffff0000U) << i;
  }
}

// A number that is not finite becomes NaN, and its block keeps the others.
TEST_P(NarrowRounding, ANumberThatIsNotFiniteIsSeen) {
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    for (const bool is_square : {false, true}) {
      const Tensor values = full({600}, 1);
      values.mutable_data<float>()[300] = bad;
      const Stored stored =
          is_square ? round_squares(values, DType::kE4m3) : round_linear(values, DType::kE4m3);
      const auto got = meaning_of(stored, is_square);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isnan(got[i]), i == 300) << i;
        EXPECT_TRUE(i == 300 || std::abs(got[i] - 1) <= 1e-6) << i << ": " << got[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, NarrowRounding,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

// What `count` values make on average, beside one in each block that is 1000 times as large.
double mean_of_rounded(float value, DType dtype, bool is_square) {
  constexpr std::int64_t kBlocks = 800;
  const Tensor values = full({kBlocks * kStateBlock}, value);
  float* data = values.mutable_data<float>();
  for (std::int64_t i = 0; i < kBlocks; ++i) data[i * kStateBlock] = 1000;
  const auto got =
      meaning_of(is_square ? round_squares(values, dtype) : round_linear(values, dtype), is_square);
  double sum = 0;
  for (std::size_t i = 0; i < got.size(); ++i) sum += i % kStateBlock == 0 ? 0 : got[i];
  return sum / static_cast<double>(kBlocks * (kStateBlock - 1));
}

// The mean of n roundings to neighbours a unit apart has a deviation of at most unit / 2 / sqrt(n).
// A unit is at most 1/8 of a number in e4m3, 1/4 of its square, and 1/128 in bf16; below 2^-6 times
// the scale, which is here 1000 / 448, it is 2^-9 times the scale. Six deviations are exceeded once
// in 500 million times.
TEST(NarrowStateMean, IsThatOfTheValues) {
  const double root_n = std::sqrt(800.0 * 255);
  for (const float value : {1.0F, 1.07F, 3.3F, 77.0F, 0.02F}) {
    const double unit = std::max(value / 8, 0x1p-9F * 1000 / 448);
    EXPECT_NEAR(mean_of_rounded(value, DType::kE4m3, false), value, 3 * unit / root_n);
    EXPECT_NEAR(mean_of_rounded(-value, DType::kE4m3, false), -value, 3 * unit / root_n);
    EXPECT_NEAR(mean_of_rounded(value, DType::kBf16, false), value, 3 * value / 128 / root_n);
    EXPECT_NEAR(mean_of_rounded(value, DType::kBf16, true), value * value,
                3 * value * value / 128 / root_n);
    const double square_unit = unit * (2 * value + unit);
    EXPECT_NEAR(mean_of_rounded(value, DType::kE4m3, true), value * value,
                3 * square_unit / root_n);
  }
}

// 1e-9 is far below the smallest number beside 1000. Rounded like others, it would be zero in
// nearly all places.
TEST(NarrowStateMean, OfSquaresBesideLargeOnesIsNeverZero) {
  const Tensor values = full({1024}, 1e-9F);
  float* data = values.mutable_data<float>();
  for (std::int64_t i = 0; i < 1024; i += kStateBlock) data[i] = 1000;
  data[7] = 0;
  const auto got = meaning_of(round_squares(values, DType::kE4m3), true);
  const double least = std::pow(0x1p-9 * 1000 / 448, 2);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i % kStateBlock == 0) continue;
    EXPECT_NEAR(got[i], i == 7 ? 0 : least, 1e-6 * least) << i;
  }
}

// Neither dtype has less range for whole blocks than f32.
TEST(NarrowStateMean, OfWholeBlocksOfTinyNumbersStays) {
  for (const float value : {1e-30F, 1e-18F, 1e18F}) {
    const auto squares = meaning_of(round_squares(full({300}, value), DType::kE4m3), true);
    EXPECT_NEAR(squares[5], value * value, 1e-6 * value * value);
    const auto numbers = meaning_of(round_linear(full({300}, value), DType::kE4m3), false);
    EXPECT_NEAR(numbers[5], value, 1e-6 * value);
  }
}

}  // namespace
}  // namespace mezzo::optim
