#include "mezzo/amp/module_precision.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/models/lenet5.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using Floats = std::vector<float>;
using testing::HasSubstr;

// Records the output dtype of its linear layer.
class Probe : public nn::Module {
 public:
  Probe() { add("fc", fc); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc(x);
    seen = y.dtype();
    return y;
  }
  nn::Linear fc{4, 4};
  DType seen = DType::kF32;
};

class ProbedNet : public nn::Module {
 public:
  ProbedNet() {
    add("first", first);
    add("second", second);
    add("norm", norm);
  }
  Tensor forward(const Tensor& x) override { return norm(second(relu(first(x)))); }
  DType dtype_of_first() const { return first.seen; }
  DType dtype_of_second() const { return second.seen; }
  Probe first;
  Probe second;
  nn::BatchNorm1d norm{4};
};

Tensor input() {
  Generator generator(3);
  return randn({8, 4}, generator);
}

TEST(ToFloat, CastsTheWholeModuleAndKeepsParametersInF32) {
  ProbedNet net;
  to_float(net, DType::kF16);
  EXPECT_EQ(net(input()).dtype(), DType::kF16);
  EXPECT_EQ(net.dtype_of_first(), DType::kF16);
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::kF32);
}

TEST(ToFloat, EqualsCastingByHandBitForBit) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    nn::Linear layer(4, 3);
    const Tensor by_hand =
        linear(input().astype(dtype), layer.weight().astype(dtype), layer.bias());
    to_float(layer, dtype);
    EXPECT_EQ(layer(input()).to_vector<float>(), by_hand.to_vector<float>());
  }
}

TEST(ToFloat, ASecondCallReplacesTheFirst) {
  nn::Linear layer(4, 4);
  to_float(layer, DType::kF16);
  to_float(layer, DType::kBf16);
  EXPECT_EQ(layer(input()).dtype(), DType::kBf16);
  EXPECT_EQ(layer.forward_hooks().size(), 1U);
}

TEST(ToFloat, RefusesOtherDTypes) {
  nn::Linear layer(4, 4);
  EXPECT_THAT(message_of<ArgumentError>([&] { to_float(layer, DType::kF64); }),
              HasSubstr("not in f64"));
}

// One rule: the innermost explicit setting wins, whatever the order of the calls.
TEST(Precedence, AChildsSettingWinsWhateverTheOrder) {
  for (const bool child_first : {false, true}) {
    ProbedNet net;
    if (child_first) add_flags_recursive(net.second, {.fp32 = true});
    add_flags_recursive(net, {.fp16 = true});
    if (!child_first) add_flags_recursive(net.second, {.fp32 = true});
    net(input());
    EXPECT_EQ(net.dtype_of_first(), DType::kF16);
    EXPECT_EQ(net.dtype_of_second(), DType::kF32);
  }
}

TEST(Precedence, AModulesSettingWinsOverTheRegionAroundIt) {
  ProbedNet net;
  to_float(net.second, DType::kF32);
  const Autocast region(DType::kBf16);
  net(input());
  EXPECT_EQ(net.dtype_of_first(), DType::kBf16);
  EXPECT_EQ(net.dtype_of_second(), DType::kF32);
}

TEST(Precedence, ARegionInsideAModuleWinsOverItsSetting) {
  class Inner : public nn::Module {
   public:
    Tensor forward(const Tensor& x) override {
      const Autocast region(DType::kBf16);
      return matmul(x, x);
    }
  };
  Inner inner;
  to_float(inner, DType::kF16);
  EXPECT_EQ(inner(randn({3, 3})).dtype(), DType::kBf16);
}

TEST(Precedence, PartsKeepTheirSettingUnderALevelAndALevelAppliedTwiceIsOne) {
  ProbedNet net;
  to_float(net.second, DType::kF32);
  auto_mixed_precision(net, Level::kO2, DType::kF16);
  auto_mixed_precision(net, Level::kO2, DType::kBf16);
  EXPECT_EQ(net(input()).dtype(), DType::kF32);
  EXPECT_EQ(net.dtype_of_first(), DType::kBf16);
  EXPECT_EQ(net.dtype_of_second(), DType::kF32);
  EXPECT_EQ(net.forward_hooks().size(), 1U);
  auto_mixed_precision(net, Level::kO0);
  net(input());
  EXPECT_EQ(net.dtype_of_first(), DType::kF32);
  EXPECT_TRUE(net.forward_hooks().empty());
}

// The dtypes at each level of operations that are lowered, exact, normalising, and in need of
// range.
TEST(AutoMixedPrecision, LevelsChooseByClass) {
  struct Row {
    Level level;
    bool matmul_in_16;
    bool relu_in_16;
    bool exp_in_16;
  };
  const Tensor x = input();
  for (const Row& row : {Row{Level::kO0, false, false, false}, Row{Level::kO1, true, false, false},
                         Row{Level::kAuto, true, false, false}, Row{Level::kO2, true, true, false},
                         Row{Level::kO3, true, true, true}}) {
    const Autocast region(Policy{.level = row.level, .lower = DType::kF16});
    EXPECT_EQ(matmul(x, full({4, 4}, 1)).dtype() == DType::kF16, row.matmul_in_16);
    EXPECT_EQ(relu(x).dtype() == DType::kF16, row.relu_in_16) << name_of(row.level);
    EXPECT_EQ(exp(x).dtype() == DType::kF16, row.exp_in_16) << name_of(row.level);
  }
}

// At O0, only the named modules are lowered.
TEST(AutoMixedPrecision, AtO0TheDtypeMayBeAny) {
  ProbedNet net;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    EXPECT_NO_THROW(auto_mixed_precision(net, "O0", dtype));
    EXPECT_THROW(auto_mixed_precision(net, "O0", dtype, {.lower = {"second"}}), ArgumentError);
    EXPECT_THROW(auto_mixed_precision(net, "O1", dtype), ArgumentError);
  }
}

TEST(AutoMixedPrecision, AtO0ModulesCanBeLoweredAndOperationsCannot) {
  ProbedNet net;
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { auto_mixed_precision(net, "O0", DType::kF16, {.lower = {"softmax"}}); }),
              HasSubstr("operations cannot be lowered at O0"));
  auto_mixed_precision(net, "O0", DType::kF16, {.keep_float32 = {"softmax"}, .lower = {"second"}});
  static_cast<void>(net(input()));
  EXPECT_EQ(net.dtype_of_first(), DType::kF32);
  EXPECT_EQ(net.dtype_of_second(), DType::kF16);
}

TEST(AutoMixedPrecision, O1ReturnsToF32WhereAutoStays) {
  const Tensor x = input();
  const Tensor ones_matrix = full({4, 4}, 1);
  {
    const Autocast region(Policy{.level = Level::kO1, .lower = DType::kF16});
    EXPECT_EQ(relu(matmul(x, ones_matrix)).dtype(), DType::kF32);
  }
  const Autocast region(Policy{.level = Level::kAuto, .lower = DType::kF16});
  EXPECT_EQ(relu(matmul(x, ones_matrix)).dtype(), DType::kF16);
}

TEST(AutoMixedPrecision, O2NormalisesWhatArrivesInF32InF32) {
  nn::BatchNorm1d norm(4);
  nn::BatchNorm1d plain(4);
  const Floats expected = plain(input()).to_vector<float>();
  auto_mixed_precision(norm, Level::kO2, DType::kBf16);
  EXPECT_EQ(norm(input()).to_vector<float>(), expected);
}

TEST(AutoMixedPrecision, WithoutKeepBatchNormScaleAndShiftAreRounded) {
  const auto output = [](std::optional<bool> keep, Level level) {
    nn::BatchNorm1d norm(4);
    fill(norm.weight().detach(), 1.001);  // 1 in bf16
    auto_mixed_precision(norm, level, DType::kBf16, {.keep_batchnorm_fp32 = keep});
    return norm(input()).to_vector<float>();
  };
  EXPECT_NE(output(false, Level::kO2), output({}, Level::kO2));
  EXPECT_EQ(output(true, Level::kO2), output({}, Level::kO2));
  EXPECT_EQ(output(false, Level::kO3), output({}, Level::kO3));
}

TEST(AutoMixedPrecision, TheLossIsF32AtEveryLevel) {
  const Tensor labels = zeros({8}, DType::kI64);
  for (const Level level : kLevels) {
    ProbedNet net;
    auto_mixed_precision(net, level, DType::kF16);
    const Autocast region(Policy{.level = level, .lower = DType::kF16});
    EXPECT_EQ(cross_entropy(net(input()), labels).dtype(), DType::kF32) << name_of(level);
  }
}

TEST(AutoMixedPrecision, NamesOfOperationsAndModulesOverrideTheLevel) {
  ProbedNet net;
  auto_mixed_precision(net, "O2", DType::kF16, {.keep_float32 = {"second*"}, .lower = {"exp"}});
  net(input());
  EXPECT_EQ(net.dtype_of_first(), DType::kF16);
  EXPECT_EQ(net.dtype_of_second(), DType::kF32);
  EXPECT_EQ(policy_of(net)->rules->action_of(*find_op("exp")), CastAction::kToLower);
  EXPECT_FALSE(policy_of(net)->rules->action_of(*find_op("relu")).has_value());
}

TEST(AutoMixedPrecision, UnknownNamesAreNamedAndChangeNothing) {
  ProbedNet net;
  const MixedPrecisionOptions options{.keep_float32 = {"second", "thrid"}};
  EXPECT_THAT(
      message_of<ArgumentError>([&] { auto_mixed_precision(net, "O2", DType::kF16, options); }),
      HasSubstr("`thrid` is neither"));
  EXPECT_TRUE(net.forward_hooks().empty());
  EXPECT_TRUE(net.second.forward_hooks().empty());
  EXPECT_THAT(message_of<ArgumentError>([&] { auto_mixed_precision(net, "O4"); }),
              HasSubstr("unknown level `O4`"));
  EXPECT_THAT(message_of<ArgumentError>([&] { auto_mixed_precision(net, "O2", DType::kF32); }),
              HasSubstr("must be bf16 or f16"));
  EXPECT_THAT(message_of<ArgumentError>([&] { OpRules().lower("no_op"); }),
              HasSubstr("no operation `no_op`"));
}

// The level's settings for parts of the network are replaced, settings on the parts stay.
TEST(AutoMixedPrecision, ApplyingItAgainTakesItsNamesBack) {
  const auto lowered = [](ProbedNet& net) {
    to_float(net.first, DType::kBf16);
    auto_mixed_precision(net, "O2", DType::kF16, {.keep_float32 = {"norm"}, .lower = {"second*"}});
  };
  ProbedNet net;
  lowered(net);
  auto_mixed_precision(net, "O0");
  net(input());
  EXPECT_EQ(net.dtype_of_first(), DType::kBf16);
  EXPECT_EQ(net.dtype_of_second(), DType::kF32);
  EXPECT_TRUE(net.second.forward_hooks().empty());
  EXPECT_TRUE(net.second.fc.forward_hooks().empty());
  EXPECT_TRUE(net.norm.forward_hooks().empty());
  lowered(net);
  auto_mixed_precision(net, "O2", DType::kF16, {.keep_float32 = {"second.fc"}});
  EXPECT_TRUE(net.second.forward_hooks().empty());
  EXPECT_EQ(policy_of(net.second.fc)->lower, DType::kF32);
  lowered(net);
  custom_mixed_precision(net, {.white_list = {"relu"}});
  EXPECT_TRUE(net.norm.forward_hooks().empty());
  lowered(net);
  clear_policy(net);
  EXPECT_TRUE(net.norm.forward_hooks().empty());
  lowered(net);
  apply_options(net, {}, {});
  EXPECT_TRUE(net.norm.forward_hooks().empty());
}

TEST(AutoMixedPrecision, ApplyingItAgainLeavesWhatAPartWasToldByItself) {
  ProbedNet net;
  auto_mixed_precision(net.second, "O2", DType::kBf16, {.keep_float32 = {"fc"}});
  auto_mixed_precision(net, "O2", DType::kF16, {.lower = {"first"}});
  auto_mixed_precision(net, "O0");
  EXPECT_TRUE(net.first.forward_hooks().empty());
  EXPECT_EQ(policy_of(net.second)->lower, DType::kBf16);
  EXPECT_EQ(policy_of(net.second.fc)->lower, DType::kF32);
}

TEST(AutoMixedPrecision, ASettingMadeLaterOnANamedPartIsItsOwn) {
  ProbedNet net;
  auto_mixed_precision(net, "O2", DType::kF16, {.keep_float32 = {"first"}});
  to_float(net.first, DType::kBf16);
  auto_mixed_precision(net, "O0");
  EXPECT_EQ(policy_of(net.first)->lower, DType::kBf16);
}

TEST(AutoMixedPrecision, RefusesNamesThatContradictEachOther) {
  ProbedNet net;
  const auto refusal = [&](const MixedPrecisionOptions& options) {
    return message_of<ArgumentError>(
        [&] { auto_mixed_precision(net, "O2", DType::kF16, options); });
  };
  EXPECT_THAT(refusal({.keep_float32 = {"second.fc"}, .lower = {"second*"}}),
              HasSubstr("the module `second.fc`"));
  EXPECT_THAT(refusal({.keep_float32 = {"exp"}, .lower = {"exp"}}),
              HasSubstr("the operation `exp`"));
  EXPECT_TRUE(net.forward_hooks().empty());
  EXPECT_TRUE(net.second.forward_hooks().empty());
  const MixedPrecisionOptions nested{.keep_float32 = {"second.fc", "second.*"},
                                     .lower = {"second"}};
  EXPECT_NO_THROW(auto_mixed_precision(net, "O2", DType::kF16, nested));
  EXPECT_EQ(policy_of(net.second.fc)->lower, DType::kF32);
}

// ResNets call batch norm, addition and ReLU as one operation.
TEST(AutoMixedPrecision, ARuleForBatchNormCoversTheFusedOne) {
  const OpDef& fused = *find_op("batch_norm_add_relu");
  EXPECT_EQ(OpRules().keep_float32("batch_norm").action_of(fused), CastAction::kToFloat32);
  EXPECT_EQ(OpRules().lower("batch_norm_add_relu").keep_float32("batch_norm").action_of(fused),
            CastAction::kToLower);
  const std::string list[] = {"batch_norm"};
  EXPECT_EQ(OpRules::black_list(list).action_of(fused), CastAction::kToFloat32);
  EXPECT_FALSE(OpRules().keep_float32("add").action_of(fused).has_value());
}

TEST(AutoMixedPrecision, ANormalisationKeptInF32KeepsItsParameters) {
  nn::BatchNorm1d plain(4);
  nn::BatchNorm1d kept(4);
  for (nn::BatchNorm1d* norm : {&plain, &kept}) {
    fill(norm->weight().detach(), 1.001);  // 1 in bf16
  }
  auto_mixed_precision(kept, "O3", DType::kBf16, {.keep_float32 = {"batch_norm"}});
  EXPECT_EQ(kept(input()).to_vector<float>(), plain(input()).to_vector<float>());
}

TEST(CustomMixedPrecision, WhiteListIsAllThatIsLowered) {
  nn::Sequential net;
  auto& first = net.emplace<Probe>();
  custom_mixed_precision(net, {.white_list = {"relu"}}, DType::kBf16);
  net(input());
  EXPECT_EQ(first.seen, DType::kF32);
  const Autocast region(*policy_of(net));
  EXPECT_EQ(relu(input()).dtype(), DType::kBf16);
}

TEST(CustomMixedPrecision, BlackListIsAllThatIsKept) {
  nn::Sequential net;
  auto& first = net.emplace<Probe>();
  custom_mixed_precision(net, {.black_list = {"exp"}}, DType::kBf16);
  net(input());
  EXPECT_EQ(first.seen, DType::kBf16);
  const Autocast region(*policy_of(net));
  EXPECT_EQ(exp(input()).dtype(), DType::kF32);
  EXPECT_EQ(softmax(input()).dtype(), DType::kBf16);
}

TEST(CustomMixedPrecision, WhatRefuses16BitsStillDoes) {
  nn::Sequential net;
  net.emplace<Probe>();
  custom_mixed_precision(net, {.black_list = {"exp"}}, DType::kF16);
  const Autocast region(*policy_of(net));
  const Tensor p = full({3}, 0.5);
  EXPECT_THROW(binary_cross_entropy(p, p), ArgumentError);
}

TEST(OpRules, TheLastWordCounts) {
  OpRules rules;
  rules.lower("exp").keep_float32("exp").keep_float32("softmax").lower("softmax");
  const Autocast region(Policy{.rules = std::make_shared<const OpRules>(rules)});
  EXPECT_EQ(exp(input()).dtype(), DType::kF32);
  EXPECT_EQ(softmax(input()).dtype(), DType::kBf16);
}

TEST(CustomMixedPrecision, NeedsExactlyOneList) {
  ProbedNet net;
  EXPECT_THROW(custom_mixed_precision(net, {}), ArgumentError);
  EXPECT_THROW(custom_mixed_precision(net, {{"relu"}, {"exp"}}), ArgumentError);
}

TEST(AddFlagsRecursive, WantsOneFlag) {
  ProbedNet net;
  EXPECT_THAT(message_of<ArgumentError>([&] { add_flags_recursive(net, {}); }), HasSubstr("0 are"));
  EXPECT_THAT(
      message_of<ArgumentError>([&] { add_flags_recursive(net, {.fp16 = true, .fp32 = true}); }),
      HasSubstr("2 are"));
}

TEST(Switch, StaysOnUntilItIsSwitchedOff) {
  const Tensor x = randn({3, 3});
  enable_autocast({.lower = DType::kF16});
  EXPECT_EQ(matmul(x, x).dtype(), DType::kF16);
  disable_autocast();
  EXPECT_EQ(matmul(x, x).dtype(), DType::kF32);
  enable_autocast({.level = Level::kO0});
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Switch, EndsWithTheRegionAroundIt) {
  {
    const Autocast region(DType::kBf16);
    disable_autocast();
    EXPECT_FALSE(is_autocast_enabled());
  }
  {
    const Autocast off(DType::kBf16, false);
    enable_autocast({.lower = DType::kBf16});
  }
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Wrapper, ComputesUnderThePolicyWheneverItIsCalled) {
  const auto square =
      autocast({.lower = DType::kF16}, [](const Tensor& x) { return matmul(x, x); });
  EXPECT_EQ(square(randn({3, 3})).dtype(), DType::kF16);
  EXPECT_EQ(square(randn({2, 2})).dtype(), DType::kF16);
  EXPECT_FALSE(is_autocast_enabled());
}

}  // namespace
}  // namespace mezzo::amp
