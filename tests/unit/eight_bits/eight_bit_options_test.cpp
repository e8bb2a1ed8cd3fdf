// Names of recipes, and policies with eight bits.
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/policy.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

TEST(EightBitOptions, NamesParseBack) {
  for (const Scaling scaling : kScalings) EXPECT_EQ(parse_scaling(name_of(scaling)), scaling);
  EXPECT_FALSE(parse_scaling("block").has_value());
}

TEST(EightBitOptions, UsualRecipesAreHybridButMxfp8) {
  EXPECT_EQ(usual_recipe(Scaling::kCurrent).grad_dtype, DType::kE5m2);
  EXPECT_EQ(usual_recipe(Scaling::kMxfp8).grad_dtype, DType::kE4m3);
  EXPECT_EQ(usual_recipe(Scaling::kDelayed).history, 1024);
}

TEST(EightBitOptions, APolicyIsNamedByThem) {
  const Policy policy{.level = Level::kO2, .eight_bits = make_eight_bits({})};
  EXPECT_EQ(policy.named_dtype(), DType::kE4m3);
  EXPECT_EQ(policy.dtype(), DType::kBf16);
  EXPECT_EQ(Policy{}.named_dtype(), DType::kBf16);
}

TEST(EightBitOptions, TheRestNeedsALowerPrecision) {
  const Policy policy{.level = Level::kO3, .lower = DType::kF32, .eight_bits = make_eight_bits({})};
  EXPECT_EQ(message_of<ArgumentError>([&] { const Autocast region(policy); }),
            "[autocast] products in eight bits need a lower dtype for the rest: it is f32. Use "
            "bf16");
}

}  // namespace
}  // namespace mezzo::amp
