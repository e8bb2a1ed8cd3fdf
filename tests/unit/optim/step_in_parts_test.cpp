// Tests steps that are done for some of the parameters at a time.
#include "mezzo/optim/step_in_parts.h"

#include "mezzo/ops/cast.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// Two optimizers with groups, 32-bit and 16-bit parameters, one of them without a gradient.
struct PartlyTrained {
  explicit PartlyTrained(ParamUpdate rule)
      : params{parameter({5, 7}), in_bf16({33}), parameter({3}), in_bf16({2, 9}), parameter({4})},
        sgd({{{params[0]}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.3}},
             {{params[1], params[2]},
              {.lr = std::vector<double>{0.1, 0.03}, .momentum = 0.5, .param_update = rule}}}),
        adam({params[3], params[4]}, {.lr = 0.1, .param_update = rule}) {}

  static Tensor in_bf16(const Shape& shape) {
    return cast(parameter(shape).detach(), DType::kBf16).set_requires_grad(true);
  }

  std::vector<Tensor> params;
  Sgd sgd;
  AdamW adam;
};

TEST(StepInParts, HasTheBitsOfSteps) {
  for (const ParamUpdate rule :
       {ParamUpdate::kMaster, ParamUpdate::kNearest, ParamUpdate::kKahan}) {
    PartlyTrained whole(rule);
    PartlyTrained trained(rule);
    StepInParts parts({&trained.sgd, &trained.adam});
    ASSERT_EQ(parts.params().size(), trained.params.size());
    for (int step = 0; step < 5; ++step) {
      set_gradients(whole.params, step);
      whole.sgd.step(0.5);
      whole.adam.step(0.5);
      set_gradients(trained.params, step);
      parts.begin(0.5);
      const std::size_t orders[][5] = {{4, 2, 0, 3, 1}, {3, 1, 4, 0, 2}};
      const std::span<const std::size_t> order(orders[step % 2]);
      parts.step(order.first(2));
      parts.step(order.subspan(2));
      EXPECT_EQ(parts.finish(), (std::vector{true, true}));
      ASSERT_TRUE(everything(trained.sgd) == everything(whole.sgd)) << "step " << step;
      ASSERT_TRUE(everything(trained.adam) == everything(whole.adam)) << "step " << step;
      if (step != 2) continue;
      for (const PartlyTrained* one : {&whole, &trained}) fill(one->params[1], 0.5);
    }
  }
}

TEST(StepInParts, CountsNoStepWithoutGradients) {
  PartlyTrained trained(ParamUpdate::kMaster);
  trained.params[4].set_grad(gradient({4}, 1));
  StepInParts parts({&trained.sgd, &trained.adam});
  parts.begin();
  parts.step(std::vector<std::size_t>{0, 1, 2, 3, 4});
  EXPECT_EQ(parts.finish(), (std::vector{false, true}));
  EXPECT_EQ(trained.sgd.updates(), 0);
  EXPECT_EQ(trained.adam.updates(), 1);
}

TEST(StepInParts, FitsWhatDoesNotDependOnAnOrder) {
  PartlyTrained master(ParamUpdate::kMaster);
  EXPECT_TRUE(StepInParts::fits(master.sgd));
  const PartlyTrained stochastic(ParamUpdate::kStochastic);
  EXPECT_FALSE(StepInParts::fits(stochastic.sgd));
  master.params[0].set_grad(zeros({5, 7}, DType::kBf16));
  EXPECT_FALSE(StepInParts::fits(master.sgd)) << "a gradient that step() refuses";
}

}  // namespace
}  // namespace mezzo::optim
