#include "mezzo/optim/lion.h"

#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// The paper's rule for one element, in double.
struct LionRule {
  LionOptions options;
  double param = 0;
  double exp_avg = 0;

  void step(double grad) {
    const LionOptions& o = options;
    const double direction = o.beta1 * exp_avg + (1 - o.beta1) * grad;
    exp_avg = o.beta2 * exp_avg + (1 - o.beta2) * grad;
    param *= 1 - o.lr.at(0) * o.weight_decay;
    param -= o.lr.at(0) * static_cast<double>((direction > 0) - (direction < 0));
  }
};

void expect_lion(const LionOptions& o, const Shape& shape, double inv_scale = 1) {
  const Tensor param = parameter(shape);
  Lion lion({param}, o);
  expect_rules(lion, param,
               std::vector<LionRule>(static_cast<std::size_t>(param.numel()), LionRule{o}), 8,
               inv_scale);
}

TEST(Lion, FollowsTheRule) {
  expect_lion({.lr = 0.01}, {5, 7});
  expect_lion({.lr = 0.01, .beta1 = 0.5, .beta2 = 0.6}, {33});
  expect_lion({.lr = 0.01, .weight_decay = 0.1}, {33});
  expect_lion({.lr = 0.01}, {33}, 1.0 / 1024);
}

TEST(Lion, StandsStillWithoutGradients) {
  const Tensor param = parameter({5});
  const auto before = param.to_vector<float>();
  Lion lion({param}, {.lr = 0.1});
  param.set_grad(zeros({5}));
  lion.step();
  EXPECT_EQ(param.to_vector<float>(), before);
}

TEST(Lion, ANaNGradientIsSeen) {
  const Tensor param = parameter({1});
  Lion lion({param}, {.lr = 0.1});
  param.set_grad(full({1}, std::nan("")));
  lion.step();
  EXPECT_TRUE(std::isnan(param.to_vector<float>()[0]));
}

TEST(Lion, ResumingIsContinuing) { expect_resuming_is_continuing<Lion>(LionOptions{.lr = 0.01}); }

TEST(Lion, RefusesOptionsOutOfRange) {
  const auto message = [](const LionOptions& options) {
    return message_of<ArgumentError>([&] { Lion({parameter({1})}, options); });
  };
  EXPECT_THAT(message({.lr = -1}), ::testing::HasSubstr("must not be negative: lr -1"));
  EXPECT_THAT(message({.beta1 = 1}), ::testing::HasSubstr("betas must be in [0, 1): 1 and 0.99"));
}

}  // namespace
}  // namespace mezzo::optim
