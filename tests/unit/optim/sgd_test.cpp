#include "mezzo/optim/sgd.h"

#include <cmath>

#include "mezzo/ops/cast.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// torch.optim.SGD's documented rule for one element, in double.
struct SgdRule {
  SgdOptions options;
  double param = 0;
  double momentum = 0;
  bool first = true;

  void step(double grad) {
    const SgdOptions& o = options;
    grad += o.weight_decay * param;
    if (o.momentum != 0) {
      momentum = first ? grad : o.momentum * momentum + (1 - o.dampening) * grad;
      first = false;
      grad = o.nesterov ? grad + o.momentum * momentum : momentum;
    }
    param -= o.lr.at(0) * grad;
  }
};

void expect_rule(const SgdOptions& options, const Shape& shape, double inv_scale = 1) {
  const Tensor param = parameter(shape);
  Sgd sgd({param}, options);
  expect_rules(sgd, param, std::vector<SgdRule>(static_cast<std::size_t>(param.numel()), {options}),
               6, inv_scale);
}

TEST(Sgd, FollowsTheRuleForEveryOption) {
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 1e-2}) {
      for (const double dampening : {0.0, 0.3}) {
        expect_rule(
            {.lr = 0.1, .momentum = momentum, .dampening = dampening, .weight_decay = decay},
            {5, 7});
      }
    }
  }
  expect_rule({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2, .nesterov = true}, {37});
}

TEST(Sgd, TakesTheLossScaleOut) {
  expect_rule({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2}, {37}, 1.0 / 65536);
}

TEST(Sgd, TheFirstMomentumIsTheGradientWithoutDampening) {
  const Tensor param = from_values({1.0F}, {1}).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  param.set_grad(from_values({0.25F}, {1}));
  sgd.step();
  EXPECT_EQ(param.item(), 0.75);
  sgd.step();  // momentum 0.5 * 0.25 + 0.5 * 0.25
  EXPECT_EQ(param.item(), 0.5);
}

TEST(Sgd, ManyParametersOfEverySizeAndThreadCount) {
  std::vector<float> alone;
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    std::vector<Tensor> params;
    for (int i = 0; i < 40; ++i) params.push_back(parameter({(i * i * 37) % 5000 + 1}));
    params.push_back(parameter({0}));
    params.push_back(parameter({100003}));
    Sgd sgd(params, {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < params.size(); ++i) {
        params[i].set_grad(gradient(params[i].shape(), step, static_cast<int>(i)));
      }
      sgd.step();
    }
    std::vector<float> all;
    for (const Tensor& param : params) {
      const auto values = param.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    if (threads == 1) alone = all;
    EXPECT_EQ(all, alone);
  }
}

TEST(Sgd, PassesOverParametersWithoutGradient) {
  const Tensor a = parameter({3});
  const Tensor b = parameter({3});
  const auto before = a.to_vector<double>();
  Sgd sgd({a, b}, {.lr = 1, .momentum = 0.9});
  b.set_grad(ones({3}));
  const std::uint64_t version = a.version();
  sgd.step();
  EXPECT_EQ(a.to_vector<double>(), before);
  EXPECT_EQ(a.version(), version);
  ASSERT_EQ(sgd.state().size(), 1U);
  EXPECT_EQ(sgd.state()[0].name, "momentum.1");
}

TEST(Sgd, AStepMakesCopiesOfTheParameterStale) {
  const Tensor param = parameter({3});
  Sgd sgd({param}, {.lr = 1});
  const auto before = param.astype(DType::kBf16).to_vector<float>();
  param.set_grad(ones({3}));
  sgd.step();
  const auto after = param.astype(DType::kBf16).to_vector<float>();
  EXPECT_NE(after, before);
  EXPECT_EQ(after, param.detach().astype(DType::kBf16).to_vector<float>());
}

TEST(Sgd, GradientsInAnotherFormatAreRearranged) {
  const Tensor weight =
      zeros({2, 3, 2, 2}, DType::kF32, Format::kChannelsLast).set_requires_grad(true);
  const Tensor grad = arange(24);
  weight.set_grad(alias(grad, {2, 3, 2, 2}, strides_for({2, 3, 2, 2}, Format::kContiguous), 0));
  Sgd sgd({weight}, {.lr = 1, .momentum = 0.9});
  sgd.step();
  std::vector<float> want;
  for (int i = 0; i < 24; ++i) want.push_back(static_cast<float>(-i));
  EXPECT_EQ(weight.to_vector<float>(), want);
}

TEST(Sgd, GroupsHaveTheirOwnOptions) {
  const Tensor a = parameter({3});
  const Tensor b = parameter({3});
  const auto a_before = a.to_vector<double>();
  const auto b_before = b.to_vector<double>();
  const std::vector<Group<SgdOptions>> groups{
      {{a}, {.lr = 0.5}}, {{}, {}}, {{b}, {.lr = 0.25, .weight_decay = 1}}};
  Sgd sgd(groups);
  a.set_grad(ones({3}));
  b.set_grad(zeros({3}));
  sgd.step();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(a.to_vector<double>()[i], a_before[i] - 0.5, allowed_after(1));
    EXPECT_NEAR(b.to_vector<double>()[i], b_before[i] * 0.75, allowed_after(1));
  }
  EXPECT_EQ(sgd.lr(2), 0.25);
  sgd.set_lr(1);
  EXPECT_EQ(sgd.lr(0), 1);
  EXPECT_EQ(sgd.lr(2), 1);
  sgd.set_lr(2, 0);
  EXPECT_EQ(sgd.lr(0), 2);
  EXPECT_EQ(sgd.lr(2), 1);
  EXPECT_THAT(message_of([&] { sgd.lr(3); }), testing::HasSubstr("there is no group 3, only 3"));
}

TEST(Sgd, ResumingIsContinuing) {
  expect_resuming_is_continuing<Sgd>(
      SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 1e-3});
}

TEST(Sgd, ZeroGradDropsGradients) {
  const Tensor param = parameter({2});
  Sgd sgd({param});
  param.set_grad(ones({2}));
  sgd.zero_grad();
  EXPECT_FALSE(param.grad().defined());
}

TEST(Sgd, RefusesWhatItCannotTrain) {
  const Tensor fine = parameter({2});
  const auto error_of = [](std::vector<Tensor> params, SgdOptions options = {}) {
    return message_of([&] { Sgd sgd(std::move(params), options); });
  };
  EXPECT_THAT(error_of({fine, ones({2}, DType::kF64).set_requires_grad(true)}),
              testing::HasSubstr("parameter 1 (f64[2]) must be f32, bf16 or f16"));
  EXPECT_THAT(error_of({ones({2})}), testing::HasSubstr("is not trained"));
  EXPECT_THAT(error_of({fine, fine}), testing::HasSubstr("parameter 1 (f32[2]) was given twice"));
  EXPECT_THAT(error_of({Tensor()}), testing::HasSubstr("parameter 0 is undefined"));
  EXPECT_THAT(error_of({fine}, {.lr = -1}), testing::HasSubstr("must not be negative: lr -1"));
  EXPECT_THAT(error_of({fine}, {.lr = INFINITY}), testing::HasSubstr("must be finite"));
  EXPECT_THAT(error_of({fine}, {.momentum = 0.9, .dampening = NAN}),
              testing::HasSubstr("must be finite"));
  EXPECT_THAT(error_of({fine}, {.nesterov = true}), testing::HasSubstr("needs a momentum"));
  EXPECT_THAT(error_of({fine}, {.momentum = 0.9, .dampening = 0.5, .nesterov = true}),
              testing::HasSubstr("and no dampening: 0.9 and 0.5"));
  const Tensor column = alias(ones({2, 2}), {2}, {2}, 0).set_requires_grad(true);
  EXPECT_THAT(error_of({column}), testing::HasSubstr("parameter 0 (f32[2]) is not dense"));
}

TEST(Sgd, RefusesGradientsAndStateThatDoNotFit) {
  const Tensor first = parameter({2});
  const Tensor second = parameter({2});
  Sgd sgd({first, second}, {.momentum = 0.9});
  const auto before = first.to_vector<float>();
  first.set_grad(ones({2}));
  second.set_grad(ones({2}, DType::kBf16));
  EXPECT_THAT(
      message_of([&] { sgd.step(); }),
      testing::HasSubstr("the gradient of parameter 1 (f32[2]) is bf16[2], it must be f32. "));
  EXPECT_EQ(first.to_vector<float>(), before);
  EXPECT_THAT(message_of([&] { sgd.set_state("momentum.2", ones({2})); }),
              testing::HasSubstr("no state called `momentum.2`"));
  EXPECT_THAT(message_of([&] { sgd.set_state("momentum.1x", ones({2})); }),
              testing::HasSubstr("no state called"));
  EXPECT_THAT(message_of([&] { sgd.set_state("momentum.1", ones({3})); }),
              testing::HasSubstr("is f32[3], parameter 1 is f32[2]"));
  EXPECT_THAT(message_of([&] { sgd.set_counter("step.0", 1); }),
              testing::HasSubstr("no counter called `step.0`"));
}

}  // namespace
}  // namespace mezzo::optim
