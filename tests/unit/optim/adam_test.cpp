#include "mezzo/optim/adam.h"

#include <limits>

#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// torch.optim.Adam's and AdamW's documented rule for one element, in double.
struct AdamRule {
  AdamOptions options;
  bool decoupled = false;
  double param = 0;
  double exp_avg = 0;
  double exp_avg_sq = 0;
  int count = 0;

  void step(double grad) {
    const AdamOptions& o = options;
    ++count;
    if (decoupled) {
      param -= o.lr.at(0) * o.weight_decay * param;
    } else {
      grad += o.weight_decay * param;
    }
    exp_avg = o.beta1 * exp_avg + (1 - o.beta1) * grad;
    exp_avg_sq = o.beta2 * exp_avg_sq + (1 - o.beta2) * grad * grad;
    const double corrected = exp_avg / (1 - std::pow(o.beta1, count));
    const double corrected_sq = exp_avg_sq / (1 - std::pow(o.beta2, count));
    param -= o.lr.at(0) * corrected / (std::sqrt(corrected_sq) + o.eps);
  }
};

template <class Optimizer, class Options = AdamOptions>
void expect_adam(const Options& o, const Shape& shape, double inv_scale = 1) {
  const Tensor param = parameter(shape);
  Optimizer adam({param}, o);
  const AdamRule rule{{o.lr, o.beta1, o.beta2, o.eps, o.weight_decay},
                      std::is_same_v<Optimizer, AdamW>};
  expect_rules(adam, param, std::vector<AdamRule>(static_cast<std::size_t>(param.numel()), rule), 8,
               inv_scale);
}

TEST(Adam, FollowsTheRule) {
  expect_adam<Adam>({.lr = 0.01}, {5, 7});
  expect_adam<Adam>({.lr = 0.01, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3}, {5, 7});
  expect_adam<Adam>({.lr = 0.01, .weight_decay = 0.1}, {33});
  expect_adam<Adam>({.lr = 0.01, .beta1 = 0}, {33});
  expect_adam<Adam>({.lr = 0.01, .beta1 = 0.3, .beta2 = 0.4}, {33});
}

// Without betas, the moments are the gradient and its square, to the last bit.
TEST(Adam, ForgetsWithoutBetas) {
  const Tensor param = parameter({33});
  Adam adam({param}, {.lr = 0.01, .beta1 = 0, .beta2 = 0});
  for (int step = 0; step < 3; ++step) {
    const Tensor grad = gradient({33}, step);
    param.set_grad(grad);
    adam.step();
    const auto want = grad.to_vector<float>();
    const auto avg = adam.state()[0].tensor.to_vector<float>();
    const auto avg_sq = adam.state()[1].tensor.to_vector<float>();
    EXPECT_EQ(avg, want);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(avg_sq[i], want[i] * want[i]);
  }
}

TEST(Adam, TakesTheLossScaleOut) { expect_adam<Adam>({.lr = 0.01}, {33}, 1.0 / 1024); }

TEST(AdamW, FollowsTheRule) {
  expect_adam<AdamW, AdamWOptions>({.lr = 0.01, .weight_decay = 0.1}, {5, 7});
  expect_adam<AdamW, AdamWOptions>({.lr = 0.01, .eps = 1e-3, .weight_decay = 0}, {33});
}

TEST(AdamW, DecaysByDefaultAndAdamDoesNot) {
  const Tensor a = ones({1}).set_requires_grad(true);
  const Tensor b = ones({1}).set_requires_grad(true);
  Adam adam({a});
  AdamW adam_w({b});
  a.set_grad(zeros({1}));
  b.set_grad(zeros({1}));
  adam.step();
  adam_w.step();
  EXPECT_EQ(a.item(), 1);
  EXPECT_NEAR(b.item(), 1 - 1e-3 * 0.01, 0x1p-24);
}

// PyTorch's AdamW decays by 0.01 unless weight_decay is set, whatever the other options are.
TEST(AdamW, DecaysByDefaultWithOtherOptions) {
  const Tensor a = ones({1}).set_requires_grad(true);
  const Tensor b = ones({1}).set_requires_grad(true);
  AdamW one({a}, {.lr = 0.1});
  AdamW groups({{{b}, {.lr = 0.1}}});
  for (const Tensor& param : {a, b}) param.set_grad(zeros({1}));
  one.step();
  groups.step();
  EXPECT_NEAR(a.item(), 1 - 0.1 * 0.01, 0x1p-24);
  EXPECT_NEAR(b.item(), 1 - 0.1 * 0.01, 0x1p-24);
}

TEST(AdamW, UpdatesParametersByTheRuleThatItIsTold) {
  const Tensor param = ones({1}, DType::kBf16).set_requires_grad(true);
  AdamW adam({param}, {.lr = 0.1, .param_update = ParamUpdate::kKahan});
  param.set_grad(ones({1}, DType::kBf16));
  adam.step();
  ASSERT_EQ(adam.state().size(), 3U);
  EXPECT_EQ(adam.state()[2].name, "compensation.0");
}

TEST(Adam, CountsStepsPerParameter) {
  const Tensor a = parameter({3});
  const Tensor b = parameter({3});
  Adam adam({a, b}, {.lr = 0.01});
  a.set_grad(gradient({3}, 0));
  adam.step();
  ASSERT_EQ(adam.counters().size(), 2U);
  EXPECT_EQ(adam.counters()[0].value, 1);
  adam.step();
  ASSERT_EQ(adam.counters().size(), 2U);
  EXPECT_EQ(adam.counters()[0].name, "step.0");
  EXPECT_EQ(adam.counters()[0].value, 2);
  EXPECT_EQ(adam.counters()[1].name, "updates");
  EXPECT_EQ(adam.counters()[1].value, 2);
  EXPECT_EQ(adam.state().size(), 2U);
}

TEST(Adam, ResumingIsContinuing) {
  expect_resuming_is_continuing<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1});
  expect_resuming_is_continuing<AdamW>(AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
}

TEST(Adam, RefusesOptionsOutOfRange) {
  const Tensor param = parameter({2});
  EXPECT_THAT(message_of([&] { Adam adam({param}, AdamOptions{.beta1 = 1}); }),
              testing::StartsWith("[Adam] betas must be in [0, 1): 1 and 0.999"));
  EXPECT_THAT(message_of([&] { AdamW adam({param}, AdamWOptions{.eps = -1}); }),
              testing::StartsWith("[AdamW] options must not be negative"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(message_of([&] { Adam adam({param}, AdamOptions{.eps = kInfinity}); }),
              testing::StartsWith("[Adam] options must be finite: lr 0.001, eps inf"));
  EXPECT_THAT(message_of([&] { AdamW adam({param}, AdamWOptions{.weight_decay = kInfinity}); }),
              testing::HasSubstr("weight_decay inf"));
  Adam adam({param});
  EXPECT_THAT(message_of([&] { adam.set_state("momentum.0", ones({2})); }),
              testing::HasSubstr("no state called `momentum.0`"));
  for (const char* name : {"exp_avg.00", "exp_avg_sq.+0", "exp_avg.0x", "exp_avg.", "exp_avg.1"}) {
    EXPECT_THAT(message_of([&] { adam.set_state(name, ones({2})); }),
                testing::HasSubstr("has no state called"))
        << name;
  }
  EXPECT_THAT(message_of([&] { adam.set_counter("step.00", 1); }),
              testing::HasSubstr("has no state called `step.00`"));
  EXPECT_THAT(message_of([&] { adam.set_counter("step.0", -1); }),
              testing::HasSubstr("must not be negative"));
}

}  // namespace
}  // namespace mezzo::optim
