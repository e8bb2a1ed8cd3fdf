// Powers of two commute with rounding: multiplying the loss, the learning rate and the scale by
// them leaves the same bits, as long as nothing leaves the range. This finds every unscaling that
// is missing, done twice, or done with another scale.
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/container.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"

namespace mezzo::amp {
namespace {

struct Weights {
  double loss = 1;
  double scale = 1;
};

// The parameters after six steps with momentum, with a learning rate that undoes the loss's weight.
std::vector<std::vector<double>> trained(Weights weights, const Policy& policy,
                                         TrainStepOptions options = {}) {
  manual_seed(5);
  SmallNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.0625 / weights.loss, .momentum = 0.9});
  options.policy = policy;
  const auto loss = [&](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels) * weights.loss;
  };
  TrainStep step(net, loss, optimizer, GradScaler(fixed_loss_scale(weights.scale)), options);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Batch batch = small_batch(i);
    EXPECT_FALSE(step(batch.images, batch.labels).skipped);
  }
  std::vector<std::vector<double>> result;
  for (const NamedTensor& entry : net.state()) result.push_back(entry.tensor.to_vector<double>());
  return result;
}

const Policy kF32{.level = Level::kO0};
const Policy kF16{.level = Level::kO2, .lower = DType::kF16};

TEST(ScalingIdentity, TheWeightOfAnF32LossGoesIntoTheLearningRate) {
  EXPECT_EQ(trained({.loss = 0x1p-16}, kF32), trained({}, kF32));
}

TEST(ScalingIdentity, AScaleUndoesTheWeightOfAnF16Loss) {
  const auto plain = trained({}, kF16);
  EXPECT_EQ(trained({.loss = 0x1p-12, .scale = 0x1p12}, kF16), plain);
  // Without the scale, small gradients are lost: the identity is not trivial.
  EXPECT_NE(trained({.loss = 0x1p-12}, kF16), plain);
}

TEST(ScalingIdentity, HoldsForMicroBatchesAndForUnscaledGradients) {
  const TrainStepOptions options{.micro_batches = 2, .max_grad_norm = 1e9};
  EXPECT_EQ(trained({.loss = 0x1p-12, .scale = 0x1p12}, kF16, options), trained({}, kF16, options));
}

// The norm of the gradient with respect to the input, as in WGAN-GP, added to the loss.
struct Penalty {
  explicit Penalty(bool half) : autocast_f16(half) {
    manual_seed(9);
    net.emplace<nn::Linear>(6, 16);
    net.emplace<nn::Tanh>();
    net.emplace<nn::Linear>(16, 1);
  }

  std::vector<std::vector<float>> gradients(GradScaler& scaler) {
    Generator generator(3);
    Tensor x = randn({4, 6}, generator);
    x.set_requires_grad(true);
    const Tensor loss = compute([&] { return mean(net(x)).astype(DType::kF32); });
    const Tensor scaled = scaler.scale(loss);
    const Tensor of_input =
        grad(std::span(&scaled, 1), std::span(&x, 1), {}, {.create_graph = true})[0] *
        (1 / scaler.get_scale());
    const Tensor total = loss + sum(of_input * of_input) * 64;
    scaler.scale(total).backward();
    optim::Sgd optimizer(net.parameters());
    scaler.unscale_(optimizer);
    EXPECT_TRUE(scaler.step(optimizer).stepped);
    scaler.update();
    std::vector<std::vector<float>> result;
    for (const Tensor& param : net.parameters()) {
      result.push_back(param.grad().defined() ? param.grad().to_vector<float>()
                                              : std::vector<float>{});
    }
    return result;
  }

  template <class Function>
  Tensor compute(const Function& function) const {
    if (!autocast_f16) return function();
    const Autocast region(DType::kF16);
    return function();
  }

  bool autocast_f16;
  nn::Sequential net;
};

// Every rounding to f16 has a relative error of at most 2^-11. A chain has some 16 of them,
// forward, backward and backward again, and sums have up to 16 terms that may cancel. 16 * 16 *
// 2^-11 of the largest element is a strict bound, and a quarter of it is expected.
void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  float largest = 0;
  for (const float value : a) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 1e-3F);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], largest / 32) << i;
}

TEST(GradientPenalty, ThroughF16AndTheScalerEqualsTheOneInF32) {
  GradScaler none({}, false);
  GradScaler scaler({.init_scale = 1024});
  const auto plain = Penalty(false).gradients(none);
  const auto scaled = Penalty(true).gradients(scaler);
  ASSERT_EQ(plain.size(), 4U);
  for (std::size_t i = 0; i < plain.size(); ++i) expect_close(plain[i], scaled[i]);
}

}  // namespace
}  // namespace mezzo::amp
