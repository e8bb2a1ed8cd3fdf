#include "mezzo/core/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random_fills.h"

namespace mezzo {
namespace {

// The constants of the paper's table 2.
constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr std::int64_t kBlockGrain = 1 << 13;

std::array<std::uint32_t, 4> block_at(RandomPosition position, std::uint64_t block) {
  return philox(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
      {static_cast<std::uint32_t>(position.seed), static_cast<std::uint32_t>(position.seed >> 32)});
}

// Calls use(i, words) for each block of four words, from which random numbers [4 * i, 4 * i + 4)
// come.
template <class Use>
void for_each_block(std::int64_t blocks, RandomPosition position, Use&& use) {
  parallel_for(blocks, kBlockGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      use(i, block_at(position, position.offset / 4 + static_cast<std::uint64_t>(i)));
    }
  });
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

Tensor to_tensor(RandomPosition position) {
  check_arg(position.offset % 4 == 0, "random", "no block of four words begins at word ",
            position.offset, ". Use a multiple of 4");
  const Tensor result = empty({kPositionParts}, DType::kI64);
  auto* parts = result.mutable_data<std::int64_t>();
  for (const std::uint64_t number : {position.seed, position.offset / 4}) {
    *parts++ = static_cast<std::uint32_t>(number);
    *parts++ = static_cast<std::uint32_t>(number >> 32U);
  }
  return result;
}

RandomPosition Generator::reserve(std::uint64_t words) {
  position_.offset = (position_.offset + 3) / 4 * 4;
  const RandomPosition start = position_;
  position_.offset += (words + 3) / 4 * 4;
  return start;
}

std::uint32_t Generator::next() {
  const std::uint64_t offset = position_.offset++;
  return block_at(position_, offset / 4)[offset % 4];
}

float Generator::uniform() { return to_unit(next()); }

std::uint64_t Generator::below(std::uint64_t bound) {
  check_arg(bound > 0, "random", "the bound must be at least 1: 0");
  // Words below 2^64 mod bound would make small results more likely: draw again.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t high = next();
    const std::uint64_t word = high << 32 | next();
    if (word >= threshold) return word % bound;
  }
}

Generator& default_generator() {
  thread_local Generator generator(0);
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().set_seed(seed); }

namespace {

thread_local std::string_view fills_refused;  // the reason; empty if fills are allowed

void check_fills_allowed() { check_arg(fills_refused.empty(), "random", fills_refused); }

}  // namespace

RefuseRandomFills::RefuseRandomFills(std::string_view reason) : scope_(fills_refused, reason) {}

void fill_uniform(std::span<float> out, RandomPosition position, float low, float high) {
  check_fills_allowed();
  const auto n = static_cast<std::int64_t>(out.size());
  // The sum may round up to `high`, which is not in the interval.
  const float most = low < high ? std::nextafter(high, low) : high;
  for_each_block((n + 3) / 4, position, [&](std::int64_t block, const auto& words) {
    for (std::int64_t i = 0; i < 4 && 4 * block + i < n; ++i) {
      out[4 * block + i] = std::min(low + (high - low) * to_unit(words[i]), most);
    }
  });
}

void fill_normal(std::span<float> out, RandomPosition position, float mean, float deviation) {
  check_fills_allowed();
  const auto n = static_cast<std::int64_t>(out.size());
  for_each_block((n + 3) / 4, position, [&](std::int64_t block, const auto& words) {
    for (std::int64_t i = 0; i < 4 && 4 * block + i < n; i += 2) {
      // Two words give two numbers. The computation is in double, and with 1 - u in (0, 1], so that
      // the logarithm is finite.
      const double radius = deviation * std::sqrt(-2.0 * std::log(1.0 - to_unit(words[i])));
      const double angle = 2.0 * std::numbers::pi * to_unit(words[i + 1]);
      float* pair = &out[4 * block + i];
      pair[0] = static_cast<float>(mean + radius * std::cos(angle));
      if (4 * block + i + 1 < n) pair[1] = static_cast<float>(mean + radius * std::sin(angle));
    }
  });
}

Tensor rand(const Shape& shape, Generator& generator) {
  const Tensor result = empty(shape);
  const auto n = static_cast<std::size_t>(result.numel());
  fill_uniform({result.mutable_data<float>(), n}, generator.reserve(n), 0, 1);
  return result;
}

Tensor randn(const Shape& shape, Generator& generator) {
  const Tensor result = empty(shape);
  const auto n = static_cast<std::size_t>(result.numel());
  fill_normal({result.mutable_data<float>(), n}, generator.reserve(n), 0, 1);
  return result;
}

}  // namespace mezzo
