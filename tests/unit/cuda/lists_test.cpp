// Tests lists of tensors on a device, in one launch each: checks, norms, updates.
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/update/flat_kernels.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/optim/steps.h"

namespace mezzo {
namespace {

class CudaLists : public OnCard<> {};

TEST_F(CudaLists, ListsMayBeginWithNothing) {
  const Tensor none = zeros({0}).to(kCard);
  EXPECT_TRUE(all_finite(std::vector<Tensor>{none, full({3}, 1).to(kCard)}));
  EXPECT_FALSE(all_finite(std::vector<Tensor>{none, full({3}, INFINITY).to(kCard)}));
  EXPECT_TRUE(all_finite(std::vector<Tensor>{none}));
  const Tensor grad = full({3}, 1).to(kCard);
  const SgdTensors updates[] = {{.param = zeros({0}).to(kCard), .grad = none, .momentum = {}},
                                {.param = copy_of(grad), .grad = grad, .momentum = {}}};
  sgd_step(updates, {.lr = 0.25});
  EXPECT_EQ(floats(updates[1].param), std::vector<float>(3, 0.75F));
  sgd_step({updates, 1}, {.lr = 0.25});
}

TEST_F(CudaLists, ListsOfGradientsAreCheckedAndMeasured) {
  std::vector<Tensor> host;
  for (std::int64_t i = 0; i < 150; ++i) {
    const DType dtype = i % 3 == 0 ? DType::kF32 : i % 3 == 1 ? DType::kBf16 : DType::kF16;
    host.push_back(randn({1 + 37 * i}).astype(dtype));
  }
  std::vector<Tensor> card;
  for (const Tensor& tensor : host) card.push_back(tensor.to(kCard));
  EXPECT_NEAR(sum_of_squares(card), sum_of_squares(host), 1e-9 * sum_of_squares(host));
  EXPECT_EQ(count_exponents(card, 8), count_exponents(host, 8));
  EXPECT_FALSE(first_nonfinite(card).has_value());
  fill(card[100], std::numeric_limits<double>::infinity());
  fill(card[40], std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(first_nonfinite(card), 40U);
  card[40] = host[40].to(kCard);
  card[100] = host[100].to(kCard);
  EXPECT_EQ(scale_in_place(card, 0.5F), scale_in_place(host, 0.5F));
  clamp_in_place(card, 0.4F);
  clamp_in_place(host, 0.4F);
  for (std::size_t i = 0; i < host.size(); ++i) EXPECT_EQ(floats(card[i]), floats(host[i])) << i;
}

// One step of both optimizers on a 16-bit parameter, with each rule.
TEST_F(CudaLists, UpdatesOf16BitParametersAreThoseOfTheCpu) {
  for (const ParamUpdate rule : {ParamUpdate::kMaster, ParamUpdate::kNearest,
                                 ParamUpdate::kStochastic, ParamUpdate::kKahan}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      manual_seed(11);
      const Tensor param = randn({1003}).astype(dtype);
      const Tensor grad = randn({1003}).astype(dtype);
      SgdTensors host{.param = param, .grad = grad, .momentum = zeros({1003})};
      host.half = {.rule = rule, .random = {5, 8}};
      if (rule == ParamUpdate::kMaster) host.half.master = param.astype(DType::kF32);
      if (rule == ParamUpdate::kKahan) host.half.compensation = zeros({1003}, dtype);
      SgdTensors card{
          .param = param.to(kCard), .grad = grad.to(kCard), .momentum = host.momentum.to(kCard)};
      card.half = host.half;
      if (host.half.master.defined()) card.half.master = host.half.master.to(kCard);
      if (host.half.compensation.defined()) {
        card.half.compensation = host.half.compensation.to(kCard);
      }
      const SgdStep step{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .inv_scale = 0.125};
      sgd_step({&host, 1}, step);
      sgd_step({&card, 1}, step);
      EXPECT_EQ(floats(card.param), floats(host.param))
          << name_of(dtype) << " rule " << static_cast<int>(rule);
    }
  }
}

UpdateTensors narrow_state(DType dtype, DType param_dtype, const Shape& shape) {
  UpdateTensors host{.param = randn(shape).astype(param_dtype)};
  host.half = {.rule = ParamUpdate::kNearest};
  host.slots = {zeros(shape, dtype), zeros(shape, dtype)};
  if (dtype == DType::kE4m3) host.scales = {zeros({4}), zeros({4})};
  host.own = flat::RuleNumbers<flat::kMostOwn>(rules::Adam<false>::Own{1e-3F, 1});
  return host;
}

UpdateTensors on_the_card(const UpdateTensors& host) {
  UpdateTensors card = host;
  card.param = host.param.to(kCard);
  for (std::size_t k = 0; k < 2; ++k) {
    card.slots[k] = host.slots[k].to(kCard);
    if (host.scales[k].defined()) card.scales[k] = host.scales[k].to(kCard);
  }
  return card;
}

void expect_same_state(const UpdateTensors& card, const UpdateTensors& host) {
  EXPECT_EQ(floats(card.param), floats(host.param));
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(floats(card.slots[k]), floats(host.slots[k])) << k;
    if (!host.scales[k].defined()) continue;
    EXPECT_EQ(floats(card.scales[k]), floats(host.scales[k])) << k;
  }
}

// State in fewer bits has the CPU's bits too: blocks, a block that ends early, 16-bit parameters.
TEST_F(CudaLists, UpdatesOfNarrowStateAreThoseOfTheCpu) {
  const rules::Adam<false>::Factors factors{.way = 0.1F,
                                            .beta2 = 0.999F,
                                            .one_minus_beta2 = 0.001F,
                                            .eps = 1e-8F,
                                            .least = flat::kLeastState,
                                            .weight_decay = 0,
                                            .shrink = 0.999F};
  const UpdateStep step{&kRuleOf<rules::Adam<false>>,
                        flat::RuleNumbers<flat::kMostFactors>(factors)};
  const Shape shape{1003};
  for (const DType dtype : {DType::kBf16, DType::kE4m3}) {
    for (const DType param_dtype : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(concat(dtype, " state of ", param_dtype));
      manual_seed(12);
      UpdateTensors host = narrow_state(dtype, param_dtype, shape);
      UpdateTensors card = on_the_card(host);
      for (std::uint64_t i = 0; i < 3; ++i) {
        host.grad = randn(shape);
        card.grad = host.grad.to(kCard);
        host.state_random = card.state_random = {9, 4096 * i};
        update_step({&host, 1}, step);
        update_step({&card, 1}, step);
      }
      expect_same_state(card, host);
    }
  }
}

// Without weight decay, since 0 times infinity would be NaN.
TEST_F(CudaLists, UpdatesLeaveInfiniteParametersInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto filled = [](double value) { return full({1003}, value).to(kCard); };
  SgdTensors sgd{.param = filled(infinity), .grad = filled(0.5), .momentum = filled(0)};
  sgd_step({&sgd, 1}, {.momentum = 0.9});
  EXPECT_THAT(floats(sgd.param), testing::Each(infinity));
  AdamTensors adam{.param = filled(-infinity),
                   .grad = filled(0.5),
                   .exp_avg = filled(0),
                   .exp_avg_sq = filled(0)};
  adam_step({&adam, 1}, {});
  EXPECT_THAT(floats(adam.param), testing::Each(-infinity));
}

// As on the CPU (tests/unit/optim/vanished_gradients_test.cpp).
TEST_F(CudaLists, StatesOfVanishedGradientsBecomeZero) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  const auto filled = [](double value) { return full({1003}, value).to(kCard); };
  const auto sgd = [&](double momentum) {
    const SgdTensors tensors{.param = filled(1), .grad = filled(0), .momentum = filled(momentum)};
    sgd_step({&tensors, 1}, {.momentum = 0.5});
    return floats(tensors.momentum);
  };
  EXPECT_THAT(sgd(2 * kLeast), testing::Each(kLeast));
  EXPECT_THAT(sgd(-kLeast), testing::Each(0.0F));
  const auto adam = [&](double eps) {
    const AdamTensors tensors{.param = filled(1),
                              .grad = filled(0),
                              .exp_avg = filled(kLeast),
                              .exp_avg_sq = filled(kLeast)};
    adam_step({&tensors, 1}, {.beta1 = 0.5, .beta2 = 0.5, .eps = eps});
    std::vector<float> moments = floats(tensors.exp_avg);
    const std::vector<float> second = floats(tensors.exp_avg_sq);
    moments.insert(moments.end(), second.begin(), second.end());
    return moments;
  };
  EXPECT_THAT(adam(1e-8), testing::Each(0.0F));
  EXPECT_THAT(adam(0), testing::Each(kLeast / 2));
}

// Parameters and momenta after one queued update on the device, from the same initial values.
std::vector<std::vector<float>> queued_update_on(Device device, std::int32_t flag,
                                                 double max_norm) {
  manual_seed(12);
  std::vector<SgdTensors> tensors;
  for (const std::int64_t count : {1, 7, 1003, 40000}) {
    tensors.push_back({.param = randn({count}).to(device),
                       .grad = randn({count}).to(device),
                       .momentum = ones({count}).to(device)});
  }
  UpdateConditions conditions{.flags = full({1}, flag, DType::kI32).to(device)};
  if (max_norm > 0) {
    conditions.squares = full({1}, 9, DType::kF64).to(device);
    conditions.max_norm = max_norm;
  }
  QueuedUpdate queued(tensors.size(), device);
  const SgdStep step{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .inv_scale = 0.125};
  queued.put(updates_of(tensors, step), update_of(step));
  queued.queue(conditions);
  std::vector<std::vector<float>> numbers;
  for (const SgdTensors& t : tensors) {
    numbers.push_back(floats(t.param));
    numbers.push_back(floats(t.momentum));
  }
  return numbers;
}

// Updates that are carried out and skipped, with and without clipping.
TEST_F(CudaLists, QueuedUpdatesAreThoseOfTheCpu) {
  for (const std::int32_t flag : {flat::kNothingBad, 3}) {
    for (const double max_norm : {0.0, 0.5}) {
      EXPECT_EQ(queued_update_on(kCard, flag, max_norm),
                queued_update_on(kCpuDevice, flag, max_norm));
    }
  }
}

// The result of a queued check, without and with the sum of squares, and that sum.
std::vector<double> queued_check_on(Device device, std::span<const Tensor> host) {
  std::vector<Tensor> tensors;
  for (const Tensor& t : host) tensors.push_back(t.defined() ? t.to(device) : t);
  QueuedCheck check;
  check.put(tensors, 0.5F, device);
  const Tensor squares = zeros({1}, DType::kF64).to(device);
  check.queue_squares(squares);
  std::vector<double> found;
  for (const Tensor& known : {Tensor(), squares}) {
    const Tensor flag = full({1}, flat::kNothingBad, DType::kI32).to(device);
    check.queue(flag, known);
    found.push_back(flag.item());
  }
  // Sums of multiples of 1/4, exact in every order.
  found.push_back(std::isfinite(squares.item()) ? squares.item() : -1);
  return found;
}

TEST_F(CudaLists, QueuedChecksAreThoseOfTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const double bad : {1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
      const Tensor wrong = ones({1003}, dtype);
      fill(alias(wrong, {1}, {1}, 1002), bad);
      const std::vector<Tensor> tensors{ones({70000}, dtype), Tensor(), zeros({0}, dtype), wrong};
      const std::vector<double> found = queued_check_on(kCard, tensors);
      EXPECT_EQ(found, queued_check_on(kCpuDevice, tensors));
      EXPECT_EQ(found[0], bad == 1 ? flat::kNothingBad : 2) << "the third that is defined";
    }
  }
}

}  // namespace
}  // namespace mezzo
