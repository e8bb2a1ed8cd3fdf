#include "mezzo/ops/smooth_l1_loss.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/cast.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using Doubles = std::vector<double>;
using testing::ElementsAre;

Tensor prediction() { return from_values({1.0F, 0.5F, -2.0F, 4.0F}, {4}).set_requires_grad(true); }
Tensor target() { return from_values({1.0F, 0.0F, 0.0F, 1.0F}, {4}); }  // d = 0, 0.5, -2, 3

TEST(L1Loss, ByHand) {
  const Tensor p = prediction();
  EXPECT_THAT(l1_loss(p, target(), Reduction::kNone).to_vector<double>(),
              ElementsAre(0, 0.5, 2, 3));
  EXPECT_EQ(l1_loss(p, target(), Reduction::kSum).item(), 5.5);
  const Tensor loss = l1_loss(p, target());
  EXPECT_EQ(loss.item(), 1.375);
  loss.backward();
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(0, 0.25, -0.25, 0.25));
}

TEST(SmoothL1Loss, ByHand) {
  const Tensor p = prediction();
  const Tensor t = target().set_requires_grad(true);
  const Tensor losses = smooth_l1_loss(p, t, 2, Reduction::kNone);
  EXPECT_THAT(losses.to_vector<double>(), ElementsAre(0, 0.0625, 1, 2));
  losses.backward(ones({4}));
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(0, 0.25, -1, 1));
  EXPECT_THAT(t.grad().to_vector<double>(), ElementsAre(0, -0.25, 1, -1));
  EXPECT_EQ(smooth_l1_loss(p, t, 0, Reduction::kSum).item(), 5.5);
}

TEST(HuberLoss, ByHand) {
  const Tensor p = prediction();
  const Tensor loss = huber_loss(p, target(), 2, Reduction::kSum);
  EXPECT_EQ(loss.item(), 0 + 0.125 + 2 + 4);
  loss.backward();
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(0, 0.5, -2, 2));
}

TEST(HuberLoss, SecondDerivativeIsThatOfTheParabola) {
  const Tensor p = prediction();
  const Tensor loss = huber_loss(p, target(), 1, Reduction::kSum);
  const Tensor first = grad({&loss, 1}, {&p, 1}, {}, {.create_graph = true})[0];
  first.backward(ones({4}));
  EXPECT_THAT(p.grad().to_vector<double>(), ElementsAre(1, 1, 0, 0));
}

// 1.01 has no exact bf16 value: next to 1, these are 2^-7 apart.
TEST(SmoothL1Loss, IsF32InMixedPrecision) {
  const Tensor t = from_values({1.01F}, {1});
  for (const DType lower : {DType::kBf16, DType::kF16}) {
    const Tensor p = ones({1}).set_requires_grad(true);
    const amp::Autocast region(lower);
    const Tensor loss = l1_loss(p.astype(lower), t);
    EXPECT_EQ(loss.dtype(), DType::kF32);
    EXPECT_EQ(static_cast<float>(loss.item()), 1.01F - 1.0F);
    loss.backward();
    EXPECT_EQ(p.grad().item(), -1);
    EXPECT_EQ(static_cast<float>(huber_loss(p.astype(lower), t, 0.001).item()),
              0.001F * (1.01F - 1.0F - 0.001F / 2));
  }
}

TEST(SmoothL1Loss, Of16BitsIsF32) {
  const Tensor p = prediction().astype(DType::kBf16);
  const Tensor loss = smooth_l1_loss(p, target().astype(DType::kBf16), 2);
  EXPECT_EQ(loss.dtype(), DType::kF32);
  EXPECT_EQ(loss.item(), 3.0625 / 4);
}

TEST(SmoothL1Loss, RefusesWhatIsNoBend) {
  const Tensor x = ones({2});
  EXPECT_THAT(message_of<ArgumentError>([&] { smooth_l1_loss(x, x, -1); }),
              testing::StartsWith("[smooth_l1_loss] beta is -1"));
  EXPECT_THAT(message_of<ArgumentError>([&] { huber_loss(x, x, 0); }),
              testing::StartsWith("[huber_loss] delta is 0"));
}

// Expects all three losses to refuse, each under the name that the user knows.
void expect_refused(const Tensor& x, const Tensor& y, const std::string& what) {
  EXPECT_EQ(message_of<ArgumentError>([&] { l1_loss(x, y); }), "[l1_loss] " + what);
  EXPECT_EQ(message_of<ArgumentError>([&] { smooth_l1_loss(x, y); }), "[smooth_l1_loss] " + what);
  EXPECT_EQ(message_of<ArgumentError>([&] { huber_loss(x, y); }), "[huber_loss] " + what);
}

TEST(SmoothL1Loss, OtherShapesAreRefusedByName) {
  expect_refused(ones({2}), ones({2, 1}),
                 "the prediction has shape [2], the target [2, 1]. Give both the same shape");
}

TEST(SmoothL1Loss, AMeanOfNothingIsRefusedByName) {
  const Tensor x = ones({0, 3});
  expect_refused(x, x,
                 "there is nothing to average: the shape is [0, 3]. Leave it out, or use "
                 "Reduction::kSum");
  EXPECT_EQ(l1_loss(x, x, Reduction::kSum).item(), 0);
}

}  // namespace
}  // namespace mezzo
