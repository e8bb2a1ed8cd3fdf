#include "mezzo/graph/captured_random.h"

#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/graph/capture.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dropout.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;

TEST(CapturedRandom, PositionsAreRelativeAndTheStreamStays) {
  manual_seed(7);
  default_generator().reserve(64);
  const RandomPosition before = default_generator().position();
  const Tensor x = randn({8});
  default_generator().set_position(before);
  const auto step = [](Tensors in) {
    return std::vector<Tensor>{dropout(dropout(in[0], 0.5, true), 0.5, true)};
  };
  const Program program = capture(step, {&x, 1});
  EXPECT_EQ(default_generator().position(), before);
  EXPECT_EQ(program.random_words, 16U);
  EXPECT_EQ(*program.nodes[0].attrs.random_position(), (RandomPosition{0, 0}));
  EXPECT_EQ(*program.nodes[1].attrs.random_position(), (RandomPosition{0, 8}));
  for (const Node& node : program.nodes) EXPECT_EQ(node.inputs[1], program.random_start);
}

// Earlier draws leave the position within a block.
TEST(CapturedRandom, PositionsAreRelativeToAWholeBlock) {
  default_generator().set_position({7, 6});
  const Tensor x = ones({5});
  const auto step = [](Tensors in) {
    return std::vector<Tensor>{dropout(dropout(in[0], 0.5, true), 0.5, true)};
  };
  const Program program = capture(step, {&x, 1});
  EXPECT_EQ(default_generator().position(), (RandomPosition{7, 6}));
  EXPECT_EQ(program.random_words, 16U);
  EXPECT_EQ(*program.nodes[0].attrs.random_position(), (RandomPosition{0, 0}));
  EXPECT_EQ(*program.nodes[1].attrs.random_position(), (RandomPosition{0, 8}));
}

TEST(CapturedRandom, RefusesTensorsOfRandomNumbers) {
  const Tensor x = randn({2});
  Generator own(5);
  for (Generator* generator : {&default_generator(), &own}) {
    const auto step = [&](Tensors in) {
      return std::vector<Tensor>{in[0] + randn({2}, *generator)};
    };
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  capture(step, {&x, 1});
                }),
                HasSubstr("the step fills tensors with random numbers"));
  }
  EXPECT_NO_THROW(randn({2}));
}

TEST(CapturedRandom, RefusesRandomNumbersOfAnotherGenerator) {
  manual_seed(1);
  const Tensor x = ones({4});
  for (const std::uint64_t seed : {99, 1}) {  // the second is the seed of the default generator
    Generator own(seed);
    const auto step = [&](Tensors in) {
      return std::vector<Tensor>{dropout(in[0], 0.5, true, own)};
    };
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  capture(step, {&x, 1});
                }),
                HasSubstr("from its own generator"));
  }
  // Also at a position that the default generator has passed.
  Generator own(99);
  const auto step = [&](Tensors in) {
    return std::vector<Tensor>{dropout(dropout(in[0], 0.5), 0.5, true, own)};
  };
  EXPECT_THAT(message_of<ArgumentError>([&] {
                capture(step, {&x, 1});
              }),
              HasSubstr("from its own generator"));
}

TEST(CapturedRandom, RefusesToSeedTheDefaultGenerator) {
  const Tensor x = ones({4});
  for (const auto& [seed, drawn, drops] : {std::tuple(1, 64, false), std::tuple(2, 64, false),
                                           std::tuple(2, 0, false), std::tuple(2, 0, true)}) {
    const auto step = [&, seed = seed, drops = drops](Tensors in) {
      manual_seed(seed);
      return std::vector<Tensor>{drops ? dropout(in[0], 0.5, true) : in[0] * 2};
    };
    manual_seed(1);
    default_generator().reserve(drawn);
    const RandomPosition before = default_generator().position();
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  capture(step, {&x, 1});
                }),
                HasSubstr("the step seeds default_generator() or moves it back"));
    EXPECT_EQ(default_generator().position(), before);
  }
}

}  // namespace
}  // namespace mezzo::graph
