// Tests steps that are queued separately from the host's work for them: they have the bits of
// immediate steps, and do nothing when they are skipped.
#include "mezzo/optim/queued_step.h"

#include <functional>
#include <limits>
#include <memory>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/flat_kernels.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

using MakeAdamOrSgd = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

// Update rules with everything that varies between steps: a first step with full momentum, learning
// rates, step counts, random numbers.
std::vector<MakeAdamOrSgd> optimizers(ParamUpdate rule) {
  const LearningRate rates = std::vector<double>{0.1, 0.03, 0.01, 0.3, 0.02};
  return {[=](const std::vector<Tensor>& params) {
            return std::make_unique<Sgd>(
                params,
                SgdOptions{.lr = rates, .momentum = 0.9, .dampening = 0.3, .param_update = rule});
          },
          [=](const std::vector<Tensor>& params) {
            return std::make_unique<Sgd>(params, SgdOptions{.lr = rates, .param_update = rule});
          },
          [=](const std::vector<Tensor>& params) {
            return std::make_unique<AdamW>(
                params, AdamWOptions{.lr = rates, .weight_decay = 0.1, .param_update = rule});
          }};
}

// Parameters of both kinds, one without a gradient.
struct Trained {
  Trained(const MakeAdamOrSgd& make, DType dtype) {
    manual_seed(7);
    params = {parameter({5, 7}), half({33}, dtype), parameter({3}), half({2, 9}, dtype)};
    optimizer = make(params);
  }

  static Tensor half(const Shape& shape, DType dtype) {
    return cast(parameter(shape).detach(), dtype).set_requires_grad(true);
  }

  std::vector<Tensor> params;
  std::unique_ptr<Optimizer> optimizer;
};

Tensor flag(std::int32_t value) { return full({1}, value, DType::kI32); }

// The first step is also skipped, and creates no state.
void expect_bits_of_steps(const MakeAdamOrSgd& make, DType dtype) {
  const Trained plain(make, dtype);
  const Trained trained(make, dtype);
  QueuedStep queued(*trained.optimizer);
  for (int step = 0; step < 8; ++step) {
    const bool skips = step % 3 == 0;
    set_gradients(trained.params, step);
    queued.prepare(0.5);
    EXPECT_TRUE(queued.has_gradients());
    queued.queue({.flags = flag(skips ? 1 : flat::kNothingBad)});
    queued.finish(!skips);
    if (!skips) {
      set_gradients(plain.params, step);
      plain.optimizer->step(0.5);
    }
    ASSERT_TRUE(everything(*trained.optimizer) == everything(*plain.optimizer)) << "step " << step;
  }
}

TEST(QueuedStep, HasTheBitsOfStepsAndSkipsWithoutATrace) {
  for (const ParamUpdate rule : {ParamUpdate::kMaster, ParamUpdate::kNearest,
                                 ParamUpdate::kStochastic, ParamUpdate::kKahan}) {
    for (const MakeAdamOrSgd& make : optimizers(rule)) {
      for (const DType dtype : {DType::kBf16, DType::kF16}) expect_bits_of_steps(make, dtype);
    }
  }
}

void expect_bits_of_clipping(const MakeAdamOrSgd& make, DType dtype, double max_norm) {
  const Trained plain(make, dtype);
  const Trained trained(make, dtype);
  QueuedStep queued(*trained.optimizer);
  QueuedCheck check;
  const Tensor squares = zeros({1}, DType::kF64);
  for (int step = 0; step < 4; ++step) {
    const double scale = step == 2 ? 0.25 : 3;
    set_gradients(trained.params, step);
    std::vector<Tensor> grads;
    for (const Tensor& param : trained.params) grads.push_back(param.grad());
    check.put(grads, static_cast<float>(1 / scale), kCpuDevice);
    queued.prepare(1 / scale);
    check.queue_squares(squares);
    queued.queue({.squares = squares, .max_norm = max_norm});
    queued.finish(true);

    set_gradients(plain.params, step);
    unscale_grads(plain.params, 1 / scale);
    const double norm = clip_grad_norm(plain.params, max_norm);
    EXPECT_EQ(std::sqrt(squares.item()), norm);
    plain.optimizer->step();
    ASSERT_TRUE(everything(*trained.optimizer) == everything(*plain.optimizer)) << "step " << step;
  }
}

// Unscaling, norm and clipping within the step, compared with changing the gradients in place.
TEST(QueuedStep, ClipsWithTheBitsOfClippingBefore) {
  for (const double max_norm : {0.1, 1e6}) {
    for (const MakeAdamOrSgd& make : optimizers(ParamUpdate::kMaster)) {
      for (const DType dtype : {DType::kBf16, DType::kF16}) {
        expect_bits_of_clipping(make, dtype, max_norm);
      }
    }
  }
}

// The gradients stay as they are, as with clip_grad_norm().
TEST(QueuedStep, DoesNotClipToANormThatIsNotFinite) {
  const Tensor param = zeros({2}).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1});
  QueuedStep queued(sgd);
  for (const double squares : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    fill(param.detach(), 0);
    param.set_grad(full({2}, 2));
    queued.prepare(1);
    queued.queue({.squares = full({1}, squares, DType::kF64), .max_norm = 1});
    queued.finish(true);
    EXPECT_EQ(param.to_vector<double>(), Doubles(2, -2));
  }
}

TEST(QueuedStep, ReadsTheGradientsWhenItIsDone) {
  const Tensor param = from_values({1.0F}, {1}).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1});
  param.set_grad(zeros({1}));
  QueuedStep queued(sgd);
  queued.prepare(1);
  fill(param.grad(), 0.25);
  EXPECT_EQ(param.item(), 1);
  queued.queue({});
  queued.finish(true);
  EXPECT_EQ(param.item(), 0.75);
  EXPECT_EQ(sgd.updates(), 1);
}

// A recording launches the same kernel again: nothing step-specific may be in the kernel's
// arguments.
TEST(QueuedStep, TheSameLaunchDoesAnotherStep) {
  const Tensor param = from_values({1.0F}, {1}).set_requires_grad(true);
  Sgd sgd({param}, {.lr = std::vector<double>{1, 0.5}, .momentum = 0.5});
  QueuedStep queued(sgd);
  for (const double expected : {0.75, 0.5625}) {  // 0.25 * 1, then (0.5 * 0.25 + 0.25) * 0.5
    param.set_grad(full({1}, 0.5));
    queued.prepare(0.5);
    queued.queue({});
    queued.finish(true);
    EXPECT_EQ(param.item(), expected);
  }
}

TEST(QueuedStep, OneThatWasNeverFinishedLeavesNothing) {
  const Tensor param = parameter({4});
  Sgd sgd({param}, {.momentum = 0.9});
  param.set_grad(gradient({4}, 0));
  QueuedStep queued(sgd);
  queued.prepare(1);
  EXPECT_EQ(sgd.state().size(), 1U);
  param.clear_grad();
  queued.prepare(1);
  EXPECT_FALSE(queued.has_gradients());
  EXPECT_TRUE(sgd.state().empty());
  queued.queue({});
  queued.finish(true);
  EXPECT_EQ(sgd.updates(), 0) << "there was no gradient";
}

TEST(QueuedStep, WhatOthersLoadMeanwhileStays) {
  const Tensor param = parameter({4});
  Sgd sgd({param}, {.momentum = 0.9});
  QueuedStep queued(sgd);
  param.set_grad(gradient({4}, 0));
  queued.prepare(1);
  sgd.set_state("momentum.0", ones({4}));
  queued.prepare(1);
  queued.finish(false);
  ASSERT_EQ(sgd.state().size(), 1U);
  EXPECT_EQ(sgd.state()[0].tensor.to_vector<double>(), Doubles(4, 1));
}

TEST(QueuedStep, ARandomPositionThatOthersLoadMeanwhileStays) {
  const Tensor param = ones({4}, DType::kBf16).set_requires_grad(true);
  Sgd sgd({param}, {.param_update = ParamUpdate::kStochastic});
  const auto offset = [&] {
    for (const NamedCounter& counter : sgd.counters()) {
      if (counter.name == "rounding.offset") return counter.value;
    }
    return std::int64_t{-1};
  };
  QueuedStep queued(sgd);
  param.set_grad(ones({4}));
  queued.prepare(1);
  EXPECT_GT(offset(), 0);
  queued.finish(false);
  EXPECT_EQ(offset(), 0);
  queued.prepare(1);
  sgd.set_counter("rounding.offset", 96);
  queued.finish(false);
  EXPECT_EQ(offset(), 96);
}

TEST(QueuedStep, RenewsThe16BitCopiesOfParameters) {
  const Tensor param = parameter({40});
  Sgd sgd({param}, {.lr = 0.1});
  const void* place = cast(param, DType::kBf16).address();
  param.set_grad(gradient({40}, 1));
  QueuedStep queued(sgd);
  for (const bool done : {false, true}) {
    queued.prepare(1);
    queued.queue({.flags = flag(done ? flat::kNothingBad : 0)});
    queued.finish(done);
    const Tensor copy = cast(param, DType::kBf16);
    EXPECT_EQ(copy.address(), place);
    const Tensor fresh = empty({40});
    copy_elements(param.detach(), fresh);
    EXPECT_EQ(copy.to_vector<float>(), cast(fresh, DType::kBf16).to_vector<float>());
  }
}

TEST(QueuedStep, FitsGradientsThatLieAsTheParametersDo) {
  const Tensor param = parameter({2, 3, 4, 5});
  Sgd sgd({param}, {});
  EXPECT_TRUE(QueuedStep::fits(sgd));
  param.set_grad(zeros({2, 3, 4, 5}));
  EXPECT_TRUE(QueuedStep::fits(sgd));
  param.set_grad(zeros({2, 3, 4, 5}, DType::kF32, Format::kChannelsLast));
  EXPECT_FALSE(QueuedStep::fits(sgd));
  EXPECT_FALSE(QueuedStep::fits(Sgd(std::vector<Tensor>{}, {})));
}

TEST(QueuedStep, ThrowsWhatStepsThrow) {
  const Tensor param = parameter({4});
  Sgd sgd({param}, {});
  param.set_grad(zeros({4}, DType::kBf16));
  QueuedStep queued(sgd);
  EXPECT_THAT(message_of([&] { queued.prepare(1); }), testing::HasSubstr("it must be f32"));
}

// The result of the check, with the factor applied to f32 values.
std::int32_t first_bad(QueuedCheck& check, std::span<const Tensor> tensors, float factor) {
  check.put(tensors, factor, kCpuDevice);
  const Tensor result = flag(flat::kNothingBad);
  check.queue(result);
  const std::int32_t found = result.to_vector<std::int32_t>()[0];
  return found == flat::kNothingBad ? found : static_cast<std::int32_t>(check.tensor_of(found));
}

TEST(QueuedCheck, FindsTheFirstTensorThatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const std::int64_t count : {1, 7, 1000}) {
      std::vector<Tensor> tensors{zeros({count}, dtype), Tensor(), zeros({0}, dtype),
                                  zeros({count}, dtype), ones({3}, dtype)};
      QueuedCheck check;
      EXPECT_EQ(first_bad(check, tensors, 1), flat::kNothingBad);
      for (const float bad : {infinity, -infinity, std::nanf("")}) {
        const Tensor wrong = zeros({count}, dtype);
        fill(alias(wrong, {1}, {1}, count - 1), bad);
        tensors[3] = wrong;
        EXPECT_EQ(first_bad(check, tensors, 1), 3);
        EXPECT_EQ(first_bad(check, {&wrong, 1}, 1), 0) << "a shorter list";
      }
    }
  }
}

// 2^15 * 2 is infinite in f16, but the product is not stored in f16.
TEST(QueuedCheck, ProductsAreF32) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor tensor = full({40}, 0x1p15, dtype);
    QueuedCheck check;
    EXPECT_EQ(first_bad(check, {&tensor, 1}, 2), flat::kNothingBad);
    EXPECT_EQ(first_bad(check, {&tensor, 1}, 0x1p112F), flat::kNothingBad);
    EXPECT_EQ(first_bad(check, {&tensor, 1}, 0x1p113F), 0);
    EXPECT_EQ(tensor.to_vector<double>(), Doubles(40, 0x1p15)) << "nothing is written";
  }
}

TEST(QueuedCheck, SquaresTellWhetherThereIsAnythingToFind) {
  const Tensor tensors[] = {full({1000}, 3e38), full({9}, -2)};
  QueuedCheck check;
  check.put(tensors, 0.5F, kCpuDevice);
  const Tensor squares = zeros({1}, DType::kF64);
  check.queue_squares(squares);
  const double large = static_cast<double>(3e38F) / 2;
  EXPECT_NEAR(squares.item() / (1000 * large * large), 1, 1e-12) << "no f32 holds that";
  const Tensor found = flag(flat::kNothingBad);
  check.queue(found, squares);
  EXPECT_EQ(found.item(), flat::kNothingBad);
  check.put(tensors, 4, kCpuDevice);
  check.queue_squares(squares);
  EXPECT_EQ(squares.item(), std::numeric_limits<double>::infinity());
  check.queue(found, squares);
  EXPECT_EQ(found.item(), 0);
}

TEST(QueuedCheck, FindsNothingWhereItIsNotToLook) {
  const Tensor bad = full({4}, std::nanf(""));
  QueuedCheck check;
  check.put_nothing({&bad, 1}, kCpuDevice);
  const Tensor found = flag(flat::kNothingBad);
  check.queue(found);
  EXPECT_EQ(found.item(), flat::kNothingBad);
}

TEST(QueuedCheck, KeepsAnEarlierFind) {
  const Tensor bad = full({4}, std::nanf(""));
  const Tensor tensors[] = {zeros({4}), bad};
  QueuedCheck check;
  check.put(tensors, 1, kCpuDevice);
  const Tensor found = flag(0);
  check.queue(found);
  EXPECT_EQ(found.item(), 0);
}

TEST(QueuedCheck, WhatWasUndefinedMayBeDefinedLater) {
  Tensor tensors[] = {zeros({4}), Tensor(), Tensor()};
  QueuedCheck check;
  EXPECT_EQ(first_bad(check, tensors, 1), flat::kNothingBad);
  tensors[1] = zeros({2});
  tensors[2] = full({3}, std::nanf(""));
  EXPECT_EQ(first_bad(check, tensors, 1), 2);
}

TEST(QueuedCheck, NoLongerListThanTheFirst) {
  const Tensor tensors[] = {zeros({4}), zeros({4})};
  QueuedCheck check;
  check.put({tensors, 1}, 1, kCpuDevice);
  EXPECT_THAT(message_of([&] { check.put(tensors, 1, kCpuDevice); }),
              testing::HasSubstr("longer than the first one"));
}

}  // namespace
}  // namespace mezzo::optim
