#include "mezzo/amp/autocast.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/binary_cross_entropy.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/optim/sgd.h"
#include "tests/sweep/sweep.h"

namespace mezzo::amp {
namespace {

TEST(Autocast, CastsByTheRuleOfTheOp) {
  const Tensor a = randn({4, 4});
  const Autocast region(DType::kBf16);
  const Tensor y = matmul(a, a);
  EXPECT_EQ(y.dtype(), DType::kBf16);        // lower
  EXPECT_EQ(relu(y).dtype(), DType::kBf16);  // follow
  EXPECT_EQ(relu(a).dtype(), DType::kF32);   // follow
  EXPECT_EQ((y + a).dtype(), DType::kF32);   // widest
  EXPECT_EQ(sum(y).dtype(), DType::kF32);    // float32
}

TEST(Autocast, NestsAndTheInnermostCounts) {
  const Tensor a = randn({4, 4});
  const Autocast outer(DType::kF16);
  EXPECT_EQ(matmul(a, a).dtype(), DType::kF16);
  {
    const Autocast inner(DType::kBf16);
    EXPECT_EQ(matmul(a, a).dtype(), DType::kBf16);
    const Autocast off(DType::kBf16, false);
    EXPECT_FALSE(is_autocast_enabled());
    EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
  }
  EXPECT_EQ(matmul(a, a).dtype(), DType::kF16);
}

// Programs that turn mixed precision off with a flag pass the remaining dtype, f32.
TEST(Autocast, WhatCastsNothingTakesAnyDtype) {
  const Tensor a = ones({2, 2});
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI64, DType::kBool, DType::kF16}) {
    const Autocast outer(DType::kBf16);
    {
      const Autocast region(dtype, false);
      EXPECT_FALSE(is_autocast_enabled());
      EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
    }
    for (const Level level : kLevels) {
      const Autocast region({.level = level, .lower = dtype}, false);
      EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
    }
    const Policy o0{.level = Level::kO0, .lower = dtype};
    {
      const Autocast region(o0);
      EXPECT_FALSE(is_autocast_enabled());
      EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
    }
    EXPECT_EQ(with_autocast(o0, [&] { return matmul(a, a).dtype(); }), DType::kF32);
    EXPECT_EQ(autocast(o0, [&] { return matmul(a, a).dtype(); })(), DType::kF32);
    {
      const Autocast region(DType::kBf16);
      enable_autocast(o0);
      EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
    }
    EXPECT_EQ(matmul(a, a).dtype(), DType::kBf16);
  }
}

// A region that casts refuses it as before, and leaves the outer region unchanged.
TEST(Autocast, WhatCastsTakesLowerDtypes) {
  const Tensor a = ones({2, 2});
  const Autocast outer(DType::kF16);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI64}) {
    EXPECT_THROW(static_cast<void>(Autocast{dtype}), ArgumentError);
    const Policy policy{.level = Level::kO2, .lower = dtype};
    EXPECT_THROW(static_cast<void>(Autocast{policy}), ArgumentError);
    EXPECT_THROW(enable_autocast({.level = Level::kO1, .lower = dtype}), ArgumentError);
    EXPECT_EQ(matmul(a, a).dtype(), DType::kF16);
  }
}

TEST(Autocast, LevelO0CastsNothing) {
  const Tensor a = randn({4, 4});
  const Autocast region(Policy{Level::kO0, DType::kBf16});
  EXPECT_EQ(matmul(a, a).dtype(), DType::kF32);
}

TEST(Autocast, LevelO2TakesEverythingAlong) {
  const Tensor a = randn({4, 4});
  const Autocast region(Policy{Level::kO2, DType::kBf16});
  EXPECT_EQ(relu(a).dtype(), DType::kBf16);
  EXPECT_EQ(sum(a).dtype(), DType::kF32);
}

TEST(Autocast, RestoresTheStateWhenAnExceptionLeavesTheRegion) {
  try {
    const Autocast region(DType::kBf16);
    throw Error("x");
  } catch (const Error&) {
  }
  EXPECT_FALSE(is_autocast_enabled());
  EXPECT_EQ(precision_hook(), nullptr);
}

TEST(Autocast, IsPerThread) {
  const Autocast region(DType::kBf16);
  bool enabled = true;
  std::thread([&] { enabled = is_autocast_enabled(); }).join();
  EXPECT_FALSE(enabled);
}

TEST(Autocast, LeavesF64AndIntegersAlone) {
  const Tensor a = randn({3, 3}).astype(DType::kF64);
  const Autocast region(DType::kBf16);
  EXPECT_EQ(matmul(a, a).dtype(), DType::kF64);
  EXPECT_EQ((arange(3, DType::kI64) + arange(3, DType::kI64)).dtype(), DType::kI64);
}

// 1 + 2^-9 has no exact bf16 value, and an f64 operand would not restore what is lost.
TEST(Autocast, RoundsNothingBesideF64) {
  const Tensor fine = full({2, 2}, 1.001953125);
  const Tensor wide = full({2, 2}, 1, DType::kF64);
  const Autocast at_auto(DType::kBf16);
  EXPECT_EQ(matmul(wide, fine).to_vector<double>()[0], 2 * 1.001953125);
  const Autocast at_o2({.level = Level::kO2, .lower = DType::kBf16});
  EXPECT_EQ((wide * fine).to_vector<double>()[0], 1.001953125);
}

TEST(Autocast, RefusesADTypeThatIsNotLower) {
  EXPECT_THROW(static_cast<void>(Autocast{DType::kF32}), ArgumentError);
  EXPECT_THROW(static_cast<void>(Autocast{DType::kI64}), ArgumentError);
}

TEST(Autocast, RefusesWhatIsWrongIn16BitsAndSaysWhatToUse) {
  const Tensor p = full({3}, 0.5);
  const Autocast region(DType::kF16);
  try {
    binary_cross_entropy(p, p);
    FAIL() << "nothing was thrown";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("use binary_cross_entropy_with_logits"));
  }
  EXPECT_EQ(binary_cross_entropy_with_logits(p, p).dtype(), DType::kF32);
  const Autocast off(DType::kF16, false);
  EXPECT_NO_THROW(binary_cross_entropy(p, p));
}

// 300000 is infinite in f16, and one of 65000's neighbours there is 64 away.
TEST(Autocast, LossesAreAddedUpInF32AtO3) {
  const Tensor logits = full({100000}, 3);
  const Tensor targets = zeros({100000});
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    const double expected = binary_cross_entropy_with_logits(logits, targets, reduction).item();
    const Autocast region({.level = Level::kO3, .lower = DType::kF16});
    const Tensor loss =
        binary_cross_entropy_with_logits(logits.astype(DType::kF16), targets, reduction);
    EXPECT_EQ(loss.dtype(), DType::kF32);
    EXPECT_EQ(loss.item(), expected);
  }
}

// Frozen scales are rounded like trained ones.
TEST(Autocast, FrozenScalesAreRoundedAtO3LikeOthers) {
  const Tensor x = randn({8, 4});
  const auto normalised = [&](bool frozen) {
    const auto affine = [&](double value) { return full({4}, value).set_requires_grad(!frozen); };
    const NoGrad no_grad;
    const Autocast region({.level = Level::kO3, .lower = DType::kBf16});
    return batch_norm(x, affine(1.001), affine(0.3), {.training = true}).y.to_vector<float>();
  };
  EXPECT_EQ(normalised(true), normalised(false));
}

// Regions cast a parameter once; writing into such a copy changes only what the writer holds.
TEST(Autocast, WhatIsWrittenIntoACopyStaysThere) {
  const Tensor weight = ones({4, 2}).set_requires_grad(true);
  const Tensor x = ones({1, 4});
  const auto product = [&] {
    const NoGrad no_grad;
    const Autocast region(DType::kBf16);
    return matmul(x, weight).to_vector<float>();
  };
  const std::vector<float> expected = product();
  const NoGrad no_grad;
  const Tensor filled = weight.astype(DType::kBf16);
  fill(filled, 5);
  EXPECT_EQ(product(), expected);
  weight.astype(DType::kBf16).mutable_data<BFloat16>()[0] = BFloat16(100);
  EXPECT_EQ(product(), expected);
  fill(weight.astype(DType::kBf16).detach(), 7);
  EXPECT_EQ(weight.astype(DType::kBf16).to_vector<float>(), std::vector<float>(8, 1));
  EXPECT_EQ(filled.to_vector<float>(), std::vector<float>(8, 5));
}

// An update does not treat it as the copy that it renews, either.
TEST(Autocast, UpdatesLeaveACopyThatWasWrittenAlone) {
  const Tensor weight = ones({64, 64}).set_requires_grad(true);
  optim::Sgd optimizer({weight}, {.lr = 1});
  for (int step = 0; step < 3; ++step) {
    const NoGrad no_grad;
    fill(weight.astype(DType::kBf16), 5);
    weight.set_grad(full({64, 64}, 0.25));
    optimizer.step();
    EXPECT_EQ(weight.astype(DType::kBf16).to_vector<float>(), weight.to_vector<float>()) << step;
    EXPECT_EQ(weight.to_vector<float>()[0], 0.75F - 0.25F * static_cast<float>(step));
  }
}

TEST(Autocast, AsADecorator) {
  const Tensor a = randn({4, 4});
  const Tensor y = with_autocast(
      {Level::kO1, DType::kF16}, [](const Tensor& x) { return matmul(x, x); }, a);
  EXPECT_EQ(y.dtype(), DType::kF16);
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Autocast, BackwardRunsInTheDTypeOfTheForwardInsideAndOutside) {
  for (const bool inside : {false, true}) {
    const Tensor weight = randn({4, 4}).set_requires_grad(true);
    const Tensor x = randn({4, 4}).set_requires_grad(true);
    Tensor y;
    {
      const Autocast region(DType::kBf16);
      y = sum(matmul(x, weight));
      if (inside) y.backward();
    }
    if (!inside) y.backward();
    EXPECT_EQ(weight.grad().dtype(), DType::kF32);
    EXPECT_EQ(x.grad().dtype(), DType::kF32);
  }
}

TEST(Autocast, EqualsCastingByHandBitForBit) {
  const Tensor x = randn({5, 7});
  const Tensor weight = randn({7, 3}).set_requires_grad(true);
  Tensor automatic;
  {
    const Autocast region(DType::kBf16);
    automatic = relu(matmul(x, weight));
  }
  sum(automatic.astype(DType::kF32)).backward();
  const auto gradient = weight.grad().to_vector<float>();
  weight.clear_grad();
  const Tensor by_hand = relu(matmul(x.astype(DType::kBf16), weight.astype(DType::kBf16)));
  sum(by_hand.astype(DType::kF32)).backward();
  EXPECT_EQ(automatic.to_vector<float>(), by_hand.to_vector<float>());
  EXPECT_EQ(weight.grad().to_vector<float>(), gradient);
}

// Every op at every level: each input reaches the kernel in the dtype that its rule demands.
class EveryRule : public testing::TestWithParam<const OpDef*> {};

// The dtype to which a rule casts an f32 input.
DType wanted_dtype(const OpDef& op, std::size_t input, const Policy& policy) {
  const bool may_cast = (op.precision.cast_mask >> input & 1U) != 0;
  const CastAction action = action_for(policy, op);
  return may_cast && action == CastAction::kToLower ? policy.lower : DType::kF32;
}

// Codes of eight bits are no numbers that a region could cast.
bool is_cast_by_regions(const Tensor& input) {
  return input.defined() && can_have_gradients(input.dtype());
}

TEST_P(EveryRule, DecidesTheDTypesOfItsInputs) {
  const OpDef& op = *GetParam();
  const Sample sample = op.samples()[0];
  for (const Level level : {Level::kO1, Level::kAuto, Level::kO2, Level::kO3}) {
    for (const DType lower : {DType::kBf16, DType::kF16}) {
      const Policy policy{level, lower};
      const std::vector<Tensor> inputs = sweep::make_inputs(op, sample, DType::kF32);
      const std::vector<const Tensor*> in = sweep::pointers(inputs);
      Operands operands(in);
      const Autocast region(policy);
      if (op.precision.of(lower) == PrecisionClass::kRefuse) {
        EXPECT_THROW(precision_hook()->prepare(op, operands), ArgumentError);
        continue;
      }
      precision_hook()->prepare(op, operands);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!is_cast_by_regions(inputs[i])) continue;
        EXPECT_EQ(operands[i].dtype(), wanted_dtype(op, i, policy))
            << op.name << " input " << i << " at " << name_of(level);
      }
      EXPECT_NO_THROW(call(op, in, sample.attrs)) << op.name << " at " << name_of(level);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Autocast, EveryRule, testing::ValuesIn(sweep::all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::amp
