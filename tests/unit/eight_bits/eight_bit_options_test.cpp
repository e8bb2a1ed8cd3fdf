// Names of recipes, and policies with eight bits.
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/policy.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/eight_bits/eight_bit_net.h"
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

TEST(EightBitOptions, AreADtypeOfTheNetworksInterfaces) {
  test::EightBitNet net;
  auto_mixed_precision(net, "O2", DType::kE4m3, {.keep_float32 = {"body.fc"}});
  ASSERT_TRUE(policy_of(net).has_value());
  EXPECT_EQ(policy_of(net)->named_dtype(), DType::kE4m3);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  TrainStep step =
      build_train_network(net, amp::class_loss, optimizer,
                          {.level = "O2", .dtype = DType::kE4m3, .scaling = Scaling::kDelayed});
  EXPECT_FALSE(step.scaler().is_enabled());
  const auto [images, labels] = amp::small_batch(1);
  EXPECT_FALSE(step(images, labels).skipped);
  EXPECT_NE(step.scale_histories(), nullptr);
  EXPECT_EQ(message_of<ArgumentError>([&] { auto_mixed_precision(net, "O2", DType::kE5m2); }),
            "[amp] the lower dtype must be bf16 or f16, or e4m3 for products, it is e5m2");
}

TEST(EightBitOptions, TheRestNeedsALowerPrecision) {
  const Policy policy{.level = Level::kO3, .lower = DType::kF32, .eight_bits = make_eight_bits({})};
  EXPECT_EQ(message_of<ArgumentError>([&] { const Autocast region(policy); }),
            "[autocast] products in eight bits need a lower dtype for the rest: it is f32. Use "
            "bf16");
}

}  // namespace
}  // namespace mezzo::amp
