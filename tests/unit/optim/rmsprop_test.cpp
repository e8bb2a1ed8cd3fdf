#include "mezzo/optim/rmsprop.h"

#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// torch.optim.RMSprop's documented rule for one element, in double.
struct RmsPropRule {
  RmsPropOptions options;
  double param = 0;
  double square_avg = 0;
  double grad_avg = 0;
  double buffer = 0;

  void step(double grad) {
    const RmsPropOptions& o = options;
    grad += o.weight_decay * param;
    square_avg = o.alpha * square_avg + (1 - o.alpha) * grad * grad;
    if (o.centered) grad_avg = o.alpha * grad_avg + (1 - o.alpha) * grad;
    const double step = grad / (std::sqrt(square_avg - grad_avg * grad_avg) + o.eps);
    buffer = o.momentum * buffer + step;
    param -= o.lr.at(0) * buffer;
  }
};

void expect_rmsprop(const RmsPropOptions& o, const Shape& shape, double inv_scale = 1) {
  const Tensor param = parameter(shape);
  RmsProp rmsprop({param}, o);
  expect_rules(rmsprop, param,
               std::vector<RmsPropRule>(static_cast<std::size_t>(param.numel()), RmsPropRule{o}), 8,
               inv_scale);
}

TEST(RmsProp, FollowsTheRule) {
  expect_rmsprop({.lr = 0.001, .alpha = 0.5}, {5, 7});
  expect_rmsprop({.lr = 0.001, .alpha = 0.5, .weight_decay = 0.1}, {33});
  expect_rmsprop({.lr = 0.001, .alpha = 0.5, .momentum = 0.9}, {33});
  expect_rmsprop({.lr = 0.001, .alpha = 0.5, .eps = 0.1, .centered = true}, {33});
  expect_rmsprop({.lr = 0.001, .alpha = 0.5, .eps = 0.1, .momentum = 0.9, .centered = true}, {33});
  expect_rmsprop({.lr = 0.001, .alpha = 0.5}, {33}, 1.0 / 1024);
}

// The mean square of equal gradients less the square of their mean is zero, which rounding may miss
// on either side.
TEST(RmsProp, EqualGradientsHaveNoVariance) {
  const Tensor param = parameter({64});
  RmsProp rmsprop({param}, {.lr = 0, .alpha = 0.3, .centered = true});
  for (int step = 0; step < 50; ++step) {
    param.set_grad(gradient({64}, 0));
    rmsprop.step();
    for (const float value : param.to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(RmsProp, ResumingIsContinuing) {
  expect_resuming_is_continuing<RmsProp>(RmsPropOptions{.lr = 0.01});
  expect_resuming_is_continuing<RmsProp>(
      RmsPropOptions{.lr = 0.01, .momentum = 0.9, .centered = true});
}

TEST(RmsProp, StateHasPyTorchsNames) {
  const Tensor param = parameter({3});
  RmsProp rmsprop({param}, {.momentum = 0.9});
  param.set_grad(ones({3}));
  rmsprop.step();
  const auto state = rmsprop.state();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].name, "square_avg.0");
  EXPECT_EQ(state[1].name, "momentum_buffer.0");
}

TEST(RmsProp, RefusesOptionsOutOfRange) {
  const auto message = [](const RmsPropOptions& options) {
    return message_of<ArgumentError>([&] { RmsProp({parameter({1})}, options); });
  };
  EXPECT_THAT(message({.alpha = 1}), ::testing::HasSubstr("alpha must be in [0, 1): 1"));
  EXPECT_THAT(message({.momentum = -1}), ::testing::HasSubstr("must not be negative"));
}

}  // namespace
}  // namespace mezzo::optim
