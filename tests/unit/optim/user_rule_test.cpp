// Rules that a program brings along.
#include "tests/unit/optim/user_rule.h"

#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

struct SignumRule {
  SignumOptions options;
  double param = 0;
  double gathered = 0;

  void step(double grad) {
    gathered = options.momentum * gathered + grad;
    param -= options.lr.at(0) * static_cast<double>((gathered > 0) - (gathered < 0));
  }
};

// More than one piece, with a rest.
TEST(UserRule, FollowsItsFunction) {
  for (const double inv_scale : {1.0, 1.0 / 1024}) {
    const Tensor param = parameter({3, 1037});
    const SignumOptions options{.lr = 0.01, .momentum = 0.5};
    Signum optimizer({param}, options);
    expect_rules(optimizer, param,
                 std::vector<SignumRule>(static_cast<std::size_t>(param.numel()), {options}), 5,
                 inv_scale);
  }
}

TEST(UserRule, ResumingIsContinuing) {
  expect_resuming_is_continuing<Signum>(SignumOptions{.lr = 0.01});
}

TEST(UserRule, AnyNumberOfThreadsGivesTheSameBits) {
  const auto trained = [](int threads) {
    const test::Threads scope(threads);
    const Tensor param = parameter({7, 10007});
    Signum optimizer({param}, {.lr = 0.01});
    for (int step = 0; step < 3; ++step) {
      param.set_grad(gradient(param.shape(), step));
      optimizer.step();
    }
    return everything(optimizer);
  };
  EXPECT_TRUE(trained(1) == trained(3));
}

TEST(UserRule, StateHasTheSlotsName) {
  const Tensor param = parameter({3});
  Signum optimizer({param});
  param.set_grad(ones({3}));
  optimizer.step();
  ASSERT_EQ(optimizer.state().size(), 1U);
  EXPECT_EQ(optimizer.state()[0].name, "momentum.0");
  EXPECT_THAT(message_of<ArgumentError>([&] { optimizer.set_counter("step.0", 1); }),
              ::testing::HasSubstr("has no counter called `step.0`"));
}

}  // namespace
}  // namespace mezzo::optim
