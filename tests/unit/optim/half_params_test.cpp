// Tests optimizers over bf16 and f16 parameters: master weights, state, gradients, errors.
#include <functional>
#include <memory>

#include "mezzo/ops/cast.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"
#include "tests/unit/optim/steps.h"
#include "tests/unit/optim/user_rule.h"

namespace mezzo::optim {
namespace {

constexpr ParamUpdate kUpdates[] = {ParamUpdate::kMaster, ParamUpdate::kNearest,
                                    ParamUpdate::kStochastic, ParamUpdate::kKahan};

// More than one piece of the kernel, and not a multiple of anything.
const Shape kShape{3, 1037};

using Maker = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>, ParamUpdate)>;

// Every update rule of every optimizer.
std::vector<Maker> makers() {
  std::vector<Maker> result;
  for (const SgdOptions& options :
       {SgdOptions{.lr = 0.1, .weight_decay = 1e-2}, SgdOptions{.lr = 0.1, .momentum = 0.9},
        SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}}) {
    result.emplace_back([own = options](std::vector<Tensor> params, ParamUpdate update) mutable {
      own.param_update = update;
      return std::make_unique<Sgd>(std::move(params), own);
    });
  }
  result.emplace_back([](std::vector<Tensor> params, ParamUpdate update) {
    return std::make_unique<Adam>(std::move(params),
                                  AdamOptions{.lr = 0.01, .param_update = update});
  });
  result.emplace_back([](std::vector<Tensor> params, ParamUpdate update) {
    return std::make_unique<AdamW>(
        std::move(params), AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .param_update = update});
  });
  result.emplace_back([](std::vector<Tensor> params, ParamUpdate update) {
    return std::make_unique<Lion>(std::move(params),
                                  LionOptions{.lr = 0.01, .param_update = update});
  });
  result.emplace_back([](std::vector<Tensor> params, ParamUpdate update) {
    return std::make_unique<RmsProp>(std::move(params),
                                     RmsPropOptions{.alpha = 0.9, .param_update = update});
  });
  result.emplace_back([](std::vector<Tensor> params, ParamUpdate update) {
    return std::make_unique<Signum>(std::move(params),
                                    SignumOptions{.lr = 0.01, .param_update = update});
  });
  return result;
}

Tensor half_parameter(const Shape& shape, DType dtype) {
  return parameter(shape).detach().astype(dtype).set_requires_grad(true);
}

// An f32 parameter with the values of a 16-bit one.
Tensor widened(const Tensor& param) {
  return param.detach().astype(DType::kF32).set_requires_grad(true);
}

std::vector<float> rounded(const Tensor& x, DType dtype) {
  return x.detach().astype(dtype).to_vector<float>();
}

std::vector<float> values_of(const Tensor& x) { return x.to_vector<float>(); }

// The gradient of a step, with values that 16 bits represent exactly, in another dtype.
Tensor half_gradient(DType dtype, int step, DType as) {
  return gradient(kShape, step).astype(dtype).astype(as);
}

// Steps a 16-bit parameter and an f32 one in parallel.
void expect_master_is_f32(const Maker& make, DType dtype, DType grad_dtype) {
  const Tensor half = half_parameter(kShape, dtype);
  const Tensor full = widened(half);
  const auto halves = make({half}, ParamUpdate::kMaster);
  const auto reference = make({full}, ParamUpdate::kMaster);
  for (int step = 0; step < 4; ++step) {
    half.set_grad(half_gradient(dtype, step, grad_dtype));
    full.set_grad(half_gradient(dtype, step, DType::kF32));
    halves->step(0.5);
    reference->step(0.5);
    ASSERT_EQ(values_of(half), rounded(full, dtype)) << name_of(dtype) << " step " << step;
  }
  const NamedTensor master = halves->state().back();
  EXPECT_EQ(master.name, "master.0");
  EXPECT_EQ(values_of(master.tensor), values_of(full));
  EXPECT_EQ(reference->state().size() + 1, halves->state().size());
}

TEST(HalfParams, AMasterIsTheF32RunBitForBit) {
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    for (const Maker& make : makers()) {
      for (const DType dtype : kLowerDTypes) {
        expect_master_is_f32(make, dtype, dtype);
        expect_master_is_f32(make, dtype, DType::kF32);
      }
    }
  }
}

TEST(HalfParams, NearestRoundsEachF32Step) {
  for (const DType dtype : kLowerDTypes) {
    const Tensor half = half_parameter(kShape, dtype);
    Sgd sgd({half}, {.lr = 0.1, .weight_decay = 0.01, .param_update = ParamUpdate::kNearest});
    for (int step = 0; step < 3; ++step) {
      const Tensor full = widened(half);
      Sgd reference({full}, {.lr = 0.1, .weight_decay = 0.01});
      full.set_grad(gradient(kShape, step));
      half.set_grad(gradient(kShape, step));
      reference.step();
      sgd.step();
      ASSERT_EQ(values_of(half), rounded(full, dtype));
    }
    EXPECT_TRUE(sgd.state().empty());
    ASSERT_EQ(sgd.counters().size(), 1U);
    EXPECT_EQ(sgd.counters()[0].name, "updates");
  }
}

TEST(HalfParams, AnUpdateBelowHalfAUnitIsLostByNearestAlone) {
  // 1/512 of a bf16 parameter, 1/4096 of an f16 one.
  for (const auto& [dtype, update] : {std::pair(DType::kBf16, 0x1p-10), {DType::kF16, 0x1p-13}}) {
    for (const ParamUpdate rule :
         {ParamUpdate::kNearest, ParamUpdate::kMaster, ParamUpdate::kKahan}) {
      const Tensor param = ones({5}, dtype).set_requires_grad(true);
      Sgd sgd({param}, {.lr = 1, .param_update = rule});
      param.set_grad(full({5}, update));
      for (int step = 0; step < 64; ++step) sgd.step();
      const double want = rule == ParamUpdate::kNearest ? 1 : 1 - 64 * update;
      EXPECT_EQ(param.to_vector<double>(), Doubles(5, want)) << name_of(dtype);
    }
  }
}

TEST(HalfParams, ParameterAndCompensationCarryTheSum) {
  for (const DType dtype : kLowerDTypes) {
    const Tensor param = half_parameter(kShape, dtype);
    const Tensor full = widened(param);
    Sgd sgd({param}, {.lr = 1e-3, .momentum = 0.9, .param_update = ParamUpdate::kKahan});
    Sgd reference({full}, {.lr = 1e-3, .momentum = 0.9});
    constexpr int kSteps = 20;
    for (int step = 0; step < kSteps; ++step) {
      param.set_grad(gradient(kShape, step));
      full.set_grad(gradient(kShape, step));
      sgd.step();
      reference.step();
    }
    const auto rest = sgd.state().back().tensor.to_vector<double>();
    const auto got = param.to_vector<double>();
    const auto want = full.to_vector<double>();
    // Each step rounds the remaining parameter to the dtype: by at most half a unit of a value
    // below 2, for f16 at least by 2^-25.
    const double unit = epsilon_of(dtype) / 2;
    const double allowed = kSteps * (std::max(unit * unit, 0x1p-25) + 0x1p-24);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i] + rest[i], want[i], allowed) << name_of(dtype) << ' ' << i;
      ASSERT_LE(std::abs(rest[i]), unit * 2) << i;
    }
  }
}

TEST(HalfParams, TheLossScaleLeavesInF32) {
  // 2^-10 at scale 2^20 is 2^-30, which f16 cannot represent.
  const Tensor param = ones({3}, DType::kF16).set_requires_grad(true);
  const Tensor scaled = full({3}, 0x1p-10, DType::kF16);
  Sgd sgd({param}, {.lr = 0x1p28});
  param.set_grad(scaled);
  sgd.step(0x1p-20);
  EXPECT_EQ(param.to_vector<double>(), Doubles(3, 0.75));
  param.set_grad(scaled);
  EXPECT_EQ(unscale_grads(sgd.params(), 0x1p-20), std::nullopt);
  EXPECT_EQ(param.grad().dtype(), DType::kF32);
  EXPECT_EQ(param.grad().to_vector<double>(), Doubles(3, 0x1p-30));
  sgd.step();
  EXPECT_EQ(param.to_vector<double>(), Doubles(3, 0.5));
}

TEST(HalfParams, F32OnesBesideThemAreUpdatedAsAlone) {
  const Tensor alone = parameter(kShape);
  const Tensor beside = parameter(kShape);
  const Tensor half = half_parameter(kShape, DType::kBf16);
  const AdamOptions options{.lr = 0.01, .param_update = ParamUpdate::kStochastic};
  Adam reference({alone}, options);
  Adam adam({half, beside}, options);
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& param : {alone, half, beside}) param.set_grad(gradient(kShape, step));
    reference.step();
    adam.step();
  }
  EXPECT_EQ(values_of(beside), values_of(alone));
  EXPECT_TRUE(std::ranges::none_of(reference.counters(), [](const NamedCounter& counter) {
    return counter.name.starts_with("rounding");
  })) << "only f32 parameters: no random numbers";
}

TEST(HalfParams, ChannelsLastGradientsAreRearranged) {
  const Shape shape{2, 3, 2, 2};
  const Tensor weight = zeros(shape, DType::kBf16, Format::kChannelsLast).set_requires_grad(true);
  weight.set_grad(
      alias(arange(24, DType::kBf16), shape, strides_for(shape, Format::kContiguous), 0));
  Sgd sgd({weight}, {.lr = 1});
  sgd.step();
  std::vector<float> want;
  for (int i = 0; i < 24; ++i) want.push_back(static_cast<float>(-i));
  EXPECT_EQ(values_of(weight), want);
}

// Runs two steps, moves the state to a new optimizer for a copy of the parameter, and runs three
// more steps of both. The copy has its own seed, so that only the counters can make the streams
// agree.
void expect_resuming_is_continuing(const Maker& make, DType dtype, ParamUpdate update,
                                   bool state_first) {
  const Tensor param = half_parameter(kShape, dtype);
  const Tensor resumed = half_parameter(kShape, dtype);
  manual_seed(1);
  const auto optimizer = make({param}, update);
  manual_seed(2);
  const auto other = make({resumed}, update);
  const auto step = [dtype](Optimizer& o, const Tensor& p, int number) {
    p.set_grad(half_gradient(dtype, number, dtype));
    o.step();
  };
  for (const int number : {0, 1}) step(*optimizer, param, number);
  if (!state_first) copy_elements(param, resumed);
  for (const NamedTensor& state : optimizer->state()) other->set_state(state.name, state.tensor);
  for (const NamedCounter& counter : optimizer->counters()) {
    other->set_counter(counter.name, counter.value);
  }
  if (state_first) copy_elements(param, resumed);
  for (const int number : {2, 3, 4}) {
    step(*optimizer, param, number);
    step(*other, resumed, number);
  }
  EXPECT_EQ(values_of(param), values_of(resumed)) << name_of(dtype) << static_cast<int>(update);
}

// State and parameters are loaded into an optimizer in the middle of another training.
TEST(HalfParams, ResumingForgetsWhatWasDoneBefore) {
  for (const ParamUpdate update : {ParamUpdate::kMaster, ParamUpdate::kKahan}) {
    const Tensor param = half_parameter(kShape, DType::kBf16);
    const Tensor resumed = half_parameter(kShape, DType::kBf16);
    Sgd sgd({param}, {.lr = 0.01, .param_update = update});
    Sgd other({resumed}, {.lr = 0.01, .param_update = update});
    const auto step = [](Optimizer& o, const Tensor& p, int number) {
      p.set_grad(half_gradient(DType::kBf16, number, DType::kBf16));
      o.step();
    };
    for (const int number : {0, 1}) step(sgd, param, number);
    step(other, resumed, 5);
    copy_elements(param, resumed);
    for (const NamedTensor& state : sgd.state()) other.set_state(state.name, state.tensor);
    for (const int number : {2, 3, 4}) {
      step(sgd, param, number);
      step(other, resumed, number);
    }
    EXPECT_EQ(values_of(param), values_of(resumed)) << static_cast<int>(update);
  }
}

TEST(HalfParams, ResumingIsContinuing) {
  for (const Maker& make : makers()) {
    for (const ParamUpdate update : kUpdates) {
      expect_resuming_is_continuing(make, DType::kBf16, update, false);
      expect_resuming_is_continuing(make, DType::kF16, update, true);
    }
  }
}

// Runs one step that creates the state, and one after `change`.
std::vector<float> after_change(ParamUpdate update,
                                const std::function<void(const Tensor&)>& change) {
  const Tensor param = ones({4}, DType::kBf16).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1, .param_update = update});
  param.set_grad(full({4}, 0x1p-10));
  sgd.step();
  change(param);
  param.set_grad(full({4}, 3 * 0x1p-10));
  sgd.step();
  return values_of(param);
}

TEST(HalfParams, WhatOthersWroteIntoAParameterStays) {
  const std::vector<float> one_unit_down(4, 1 - 0x1p-8F);
  const auto nothing = [](const Tensor&) {};
  const auto touch = [](const Tensor& param) { param.bump_version(); };
  const auto load = [](const Tensor& param) { fill(alias(param, {1}, {1}, 2), 8); };
  for (const ParamUpdate update : {ParamUpdate::kMaster, ParamUpdate::kKahan}) {
    EXPECT_EQ(after_change(update, nothing), one_unit_down);
    EXPECT_EQ(after_change(update, load)[2], 8);
  }
  EXPECT_EQ(after_change(ParamUpdate::kMaster, touch), one_unit_down)
      << "a master keeps the bits of elements that nobody changed";
  EXPECT_EQ(after_change(ParamUpdate::kMaster, load)[1], one_unit_down[1]);
}

TEST(HalfParams, ACompensationOfAnOldValueIsForgotten) {
  const Tensor param = ones({4}, DType::kBf16).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1, .param_update = ParamUpdate::kKahan});
  param.set_grad(full({4}, 0x1p-10));
  sgd.step();
  EXPECT_EQ(sgd.state()[0].tensor.to_vector<double>(), Doubles(4, -0x1p-10));
  fill(param, 8);
  param.set_grad(zeros({4}));
  sgd.step();
  EXPECT_EQ(sgd.state()[0].tensor.to_vector<double>(), Doubles(4, 0));
}

TEST(HalfParams, OverflowLeavesNoCompensation) {
  const Tensor param = full({2}, 60000, DType::kF16).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1, .param_update = ParamUpdate::kKahan});
  param.set_grad(from_values({-10000.0F, 0.0F}, {2}));
  sgd.step();
  EXPECT_TRUE(std::isinf(param.to_vector<double>()[0]));
  EXPECT_EQ(sgd.state()[0].tensor.to_vector<double>(), Doubles(2, 0));
}

TEST(HalfParams, RefusesWhatDoesNotFitNamingTheParameter) {
  const Tensor full_param = parameter({2, 3});
  const Tensor half = half_parameter({4}, DType::kF16);
  Sgd sgd({full_param, half});
  const auto error_of_grads = [&](DType first, DType second) {
    full_param.set_grad(ones({2, 3}, first));
    half.set_grad(ones({4}, second));
    return message_of([&] { sgd.step(); });
  };
  EXPECT_THAT(error_of_grads(DType::kF16, DType::kF16),
              testing::HasSubstr("the gradient of parameter 0 (f32[2, 3]) is f16[2, 3], it must be "
                                 "f32. "));
  EXPECT_THAT(error_of_grads(DType::kF32, DType::kBf16),
              testing::HasSubstr("the gradient of parameter 1 (f16[4]) is bf16[4], it must be f32 "
                                 "or f16. "));
  EXPECT_TRUE(sgd.state().empty()) << "nothing has changed";
  EXPECT_THAT(message_of([&] {
                sgd.set_state("master.0", ones({2, 3}));
              }),
              testing::HasSubstr("no state called `master.0`: parameter 0 (f32[2, 3])"));
  EXPECT_THAT(message_of([&] { sgd.set_state("compensation.1", ones({4})); }),
              testing::HasSubstr("no state called `compensation.1`"));
  EXPECT_THAT(message_of([&] { sgd.set_state("master.1", ones({5})); }),
              testing::HasSubstr("is f32[5], parameter 1 is f16[4]"));
  EXPECT_THAT(message_of([&] { sgd.set_counter("rounding.seed", 1); }),
              testing::HasSubstr("no parameter is rounded stochastically"));
}

TEST(HalfParams, StepsOfTensorsSayWhatDoesNotFit) {
  const Tensor param = ones({4}, DType::kBf16);
  EXPECT_THAT(message_of([&] {
                sgd_step(std::vector<SgdTensors>{{param, ones({4}), {}}}, {});
              }),
              testing::HasSubstr("the master copy of parameter 0 is undefined"));
  const HalfUpdate odd{.rule = ParamUpdate::kStochastic, .random = {1, 2}};
  EXPECT_THAT(message_of([&] {
                sgd_step(std::vector<SgdTensors>{{param, ones({4}), {}, true, odd}}, {});
              }),
              testing::HasSubstr("parameter 0 begins at 2"));
  EXPECT_THAT(message_of([] { refresh_master(ones({4}), ones({4})); }),
              testing::HasSubstr("only one of bf16 or f16 has a master copy"));
}

}  // namespace
}  // namespace mezzo::optim
