#include "mezzo/core/random.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using Words = std::array<std::uint32_t, 4>;
constexpr std::uint32_t kAllOnes = 0xffffffff;

// From the file kat_vectors of the authors' library, Random123.
TEST(Philox, MatchesItsKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kAllOnes, kAllOnes, kAllOnes, kAllOnes}, {kAllOnes, kAllOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Generator, WordsAreThoseOfPhiloxInOrder) {
  Generator generator(0x0123456789abcdef);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox({block, 0, 0, 0}, {0x89abcdef, 0x01234567})) {
      EXPECT_EQ(generator.next(), word);
    }
  }
}

TEST(Generator, ContinuesFromAPosition) {
  Generator generator(7);
  for (int i = 0; i < 5; ++i) generator.next();
  Generator other;
  other.set_position(generator.position());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(other.next(), generator.next());
  generator.set_seed(7);
  EXPECT_EQ(generator.position(), (RandomPosition{7, 0}));
}

TEST(Generator, ReservesWholeBlocks) {
  Generator generator(1);
  generator.next();
  EXPECT_EQ(generator.reserve(5).offset, 4U);
  EXPECT_EQ(generator.position().offset, 12U);
  EXPECT_EQ(generator.reserve(0).offset, 12U);
  EXPECT_EQ(generator.position().offset, 12U);
}

TEST(Generator, CountersBeyond32BitsGoOn) {
  Generator generator(1);
  generator.set_position({1, (std::uint64_t{1} << 34) - 4});
  std::set<std::uint32_t> words;
  for (int i = 0; i < 8; ++i) words.insert(generator.next());
  EXPECT_EQ(words.size(), 8U);
  EXPECT_EQ(philox({0, 1, 0, 0}, {1, 0})[3], [] {
    Generator at(1);
    at.set_position({1, (std::uint64_t{1} << 34) + 3});
    return at.next();
  }());
}

TEST(Generator, BelowStaysBelowAndIsEven) {
  Generator generator(3);
  EXPECT_THROW(generator.below(0), ArgumentError);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(generator.below(1), 0U);
  constexpr int kDraws = 70'000;
  constexpr double kExpected = kDraws / 7.0;
  int counts[7] = {};
  for (int i = 0; i < kDraws; ++i) ++counts[generator.below(7)];
  // 10000 are expected with a deviation of 93; this allows five deviations.
  for (const int count : counts) EXPECT_NEAR(count, kExpected, 465);
}

TEST(Generator, BelowHasNoBiasForLargeBounds) {
  // Three quarters of 2^64: without drawing again, the lowest third would come twice as often.
  constexpr std::uint64_t kBound = 3ULL << 62;
  Generator generator(4);
  constexpr int kDraws = 30'000;
  int low = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t number = generator.below(kBound);
    EXPECT_LT(number, kBound);
    low += number < kBound / 3 ? 1 : 0;
  }
  EXPECT_NEAR(low, kDraws / 3.0, 410);  // five deviations
}

TEST(Generator, EachThreadHasItsOwnDefault) {
  manual_seed(11);
  const std::uint32_t here = default_generator().next();
  manual_seed(11);
  EXPECT_EQ(default_generator().next(), here);
  manual_seed(12);
  EXPECT_NE(default_generator().next(), here);
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double skew = 0;
  double kurtosis = 0;
};

Moments moments_of(const std::vector<float>& values) {
  Moments result;
  const auto n = static_cast<double>(values.size());
  for (const float value : values) result.mean += value / n;
  double squares = 0;
  double cubes = 0;
  double fourths = 0;
  for (const float value : values) {
    const double x = value - result.mean;
    squares += x * x / n;
    cubes += x * x * x / n;
    fourths += x * x * x * x / n;
  }
  result.deviation = std::sqrt(squares);
  result.skew = cubes / std::pow(squares, 1.5);
  result.kurtosis = fourths / (squares * squares);
  return result;
}

TEST(Fill, UniformHasItsMomentsAndRange) {
  std::vector<float> values(400'000);
  fill_uniform(values, {5, 0}, -1, 3);
  const Moments moments = moments_of(values);
  // Five deviations of each estimate.
  EXPECT_NEAR(moments.mean, 1, 0.0092);
  EXPECT_NEAR(moments.deviation, 4 / std::sqrt(12.0), 0.005);
  EXPECT_NEAR(moments.kurtosis, 1.8, 0.012);
  for (const float value : values) {
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 3);
  }
}

// From 1 on, units of f32 exceed the steps of the words, the last of which round up.
TEST(Fill, UniformStaysBelowItsEnd) {
  std::vector<float> values(1 << 12);
  const float end = std::nextafter(1.0F, 2.0F);
  fill_uniform(values, {}, 1, end);
  for (const float value : values) EXPECT_EQ(value, 1);
  fill_uniform(values, {}, 3, 3);
  EXPECT_EQ(values[0], 3);
}

TEST(Fill, NormalHasItsMoments) {
  std::vector<float> values(400'000);
  fill_normal(values, {6, 0}, 2, 0.5F);
  const Moments moments = moments_of(values);
  EXPECT_NEAR(moments.mean, 2, 0.004);
  EXPECT_NEAR(moments.deviation, 0.5, 0.0028);
  EXPECT_NEAR(moments.skew, 0, 0.02);
  EXPECT_NEAR(moments.kurtosis, 3, 0.04);
}

TEST(Fill, TheThreadCountChangesNothing) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3, 8}) {
    const test::Threads guard(threads);
    std::vector<float> values(200'003);
    fill_uniform(std::span(values).first(100'001), {9, 8}, 0, 1);
    fill_normal(std::span(values).last(100'002), {9, 8}, 0, 1);
    results.push_back(values);
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(Fill, ShorterIsAPrefixOfLonger) {
  std::vector<float> longer(23);
  fill_normal(longer, {2, 4}, 0, 1);
  for (std::size_t count = 0; count < longer.size(); ++count) {
    std::vector<float> shorter(count);
    fill_normal(shorter, {2, 4}, 0, 1);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << count;
  }
}

TEST(Fill, UniformIsWordByWordTheGenerator) {
  Generator generator(31);
  std::vector<float> values(19);
  fill_uniform(values, generator.position(), 0, 1);
  for (const float value : values) EXPECT_EQ(value, generator.uniform());
}

TEST(RandomTensors, TakeTheirPartOfTheStream) {
  Generator generator(13);
  const Tensor a = rand({3, 5}, generator);
  EXPECT_EQ(generator.position().offset, 16U);
  const Tensor b = randn({3, 5}, generator);
  EXPECT_EQ(generator.position().offset, 32U);
  EXPECT_EQ(a.shape(), Shape({3, 5}));
  EXPECT_NE(a.to_vector<float>(), b.to_vector<float>());
  generator.set_position({13, 16});
  EXPECT_EQ(randn({3, 5}, generator).to_vector<float>(), b.to_vector<float>());
}

TEST(RandomTensors, OnlyTheBeginOfABlockIsATensor) {
  const RandomPosition begin{0x123456789ABCDEFU, (std::uint64_t{5} << 34U) + 8};
  EXPECT_EQ(position_from(to_tensor(begin).data<std::int64_t>()), begin);
  for (const std::uint64_t beside : {1U, 2U, 3U}) {
    EXPECT_THROW(to_tensor({begin.seed, begin.offset + beside}), ArgumentError);
  }
}

}  // namespace
}  // namespace mezzo
