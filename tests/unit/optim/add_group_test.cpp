// Tests groups that optimizers get during training: as if they had always been there, without
// gradients.
#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

Tensor parameter_in(const Shape& shape, DType dtype) {
  return parameter(shape).detach().astype(dtype).set_requires_grad(true);
}

// Two groups, the second of which gets gradients from the third step on.
template <class Optimizer, class Options>
void expect_grown_is_whole(const Options& first, const Options& second, DType dtype) {
  SCOPED_TRACE(testing::Message() << name_of(dtype));
  const Shape shapes[] = {{5}, {3, 2}};
  const auto params = [&] {
    return std::vector{parameter_in(shapes[0], dtype), parameter_in(shapes[1], dtype)};
  };
  const std::vector<Tensor> a = params();
  const std::vector<Tensor> b = params();
  manual_seed(3);
  Optimizer whole(std::vector<Group<Options>>{{{a[0]}, first}, {{a[1]}, second}});
  manual_seed(3);
  Optimizer grown({b[0]}, first);
  for (int step = 0; step < 6; ++step) {
    if (step == 2) grown.add_group({{b[1]}, second});
    for (const std::vector<Tensor>& of : {a, b}) {
      of[0].set_grad(gradient(shapes[0], step));
      if (step >= 2) of[1].set_grad(gradient(shapes[1], step, 1));
    }
    whole.step();
    grown.step();
    if (step < 2) continue;
    EXPECT_TRUE(everything(whole) == everything(grown)) << step;
    EXPECT_EQ(whole.lr(1), grown.lr(1));
  }
  EXPECT_EQ(grown.groups(), 2U);
  EXPECT_EQ(grown.params().size(), 2U);
  EXPECT_EQ(grown.state().size(), whole.state().size());
  grown.set_lr(0.5, 1);
  EXPECT_EQ(grown.lr(1), 0.5);
  EXPECT_NE(grown.lr(0), 0.5);
}

TEST(AddGroup, IsAsIfTheGroupHadBeenThere) {
  const LearningRate rates = std::vector<double>{0.1, 0.2, 0.05, 0.3, 0.01};
  for (const auto rule : {ParamUpdate::kMaster, ParamUpdate::kKahan, ParamUpdate::kStochastic}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      expect_grown_is_whole<Sgd>(
          SgdOptions{.lr = rates, .momentum = 0.9, .param_update = rule},
          SgdOptions{.lr = rates, .momentum = 0.5, .dampening = 0.25, .param_update = rule}, dtype);
      expect_grown_is_whole<Adam>(AdamOptions{.lr = rates, .param_update = rule},
                                  AdamOptions{.lr = rates, .beta1 = 0.5, .param_update = rule},
                                  dtype);
      expect_grown_is_whole<AdamW>(
          AdamWOptions{.lr = rates, .param_update = rule},
          AdamWOptions{.lr = rates, .weight_decay = 0.1, .param_update = rule}, dtype);
    }
  }
}

TEST(AddGroup, WhatIsRefusedChangesNothing) {
  const Tensor a = parameter({4});
  const Tensor b = parameter({4});
  const Tensor c = parameter({4});
  Sgd sgd({a}, {.momentum = 0.9});
  const auto error_of = [&](const Group<SgdOptions>& group) {
    return message_of<ArgumentError>([&] { sgd.add_group(group); });
  };
  EXPECT_EQ(error_of({{b, a}, {}}), "[Sgd] parameter 2 (f32[4]) was given twice. Pass each once");
  EXPECT_EQ(error_of({{b, c, b}, {}}),
            "[Sgd] parameter 3 (f32[4]) was given twice. Pass each once");
  EXPECT_THAT(error_of({{b, ones({4})}, {}}), testing::HasSubstr("parameter 2 (f32[4]) is not"));
  EXPECT_THAT(error_of({{b}, {.lr = -1.0}}), testing::HasSubstr("must not be negative"));
  EXPECT_THAT(error_of({{b}, {.nesterov = true}}), testing::HasSubstr("Nesterov"));
  EXPECT_EQ(sgd.params().size(), 1U);
  EXPECT_EQ(sgd.groups(), 1U);
  for (const Tensor& param : {a, b, c}) param.set_grad(ones({4}));
  sgd.step();
  EXPECT_EQ(sgd.state().size(), 1U);
  EXPECT_EQ(b.to_vector<float>(), parameter({4}).to_vector<float>());
  sgd.add_group({{b, c}, {.momentum = 0.9}});
  sgd.step();
  EXPECT_EQ(sgd.state().size(), 3U);

  Adam adam({a});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                adam.add_group({{b}, {.beta1 = 1}});
              }),
              testing::HasSubstr("[Adam] betas must be in [0, 1)"));
  AdamW adamw({a});
  EXPECT_THAT(message_of<ArgumentError>([&] {
                adamw.add_group({{b}, {.eps = -1}});
              }),
              testing::HasSubstr("[AdamW] options must not be negative"));
}

// Parts of one block are separate parameters as long as they do not overlap.
TEST(AddGroup, RefusesMemoryOfAnotherParameter) {
  const Tensor block = parameter({6}).detach();
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return slice(block, 0, begin, end).detach().set_requires_grad(true);
  };
  Sgd sgd({part(0, 3), part(3, 5)});
  const auto error_of = [&](const std::vector<Tensor>& params) {
    return message_of<ArgumentError>([&] { sgd.add_group({params, {}}); });
  };
  EXPECT_EQ(error_of({part(3, 5)}),
            "[Sgd] parameter 2 (f32[2]) shares memory with parameter 1 (f32[2]), which a step "
            "would update twice. Pass one of them");
  EXPECT_THAT(error_of({parameter({1}), part(2, 3)}),
              testing::HasSubstr("parameter 3 (f32[1]) shares memory with parameter 0 (f32[3])"));
  EXPECT_THAT(error_of({part(5, 6), part(5, 6)}),
              testing::HasSubstr("parameter 3 (f32[1]) shares memory with parameter 2 (f32[1])"));
  sgd.add_group({{part(5, 6)}, {}});
  EXPECT_EQ(sgd.params().size(), 3U);
}

TEST(AddGroup, StateCanBePutBack) {
  const std::vector<Tensor> params = {parameter({4}), parameter({2, 2})};
  Adam grown({params[0]});
  grown.add_group({{params[1]}, {.lr = 0.1}});
  set_gradients(params, 0);
  grown.step();
  Adam other(std::vector<Group<AdamOptions>>{{{params[0]}, {}}, {{params[1]}, {.lr = 0.1}}});
  for (const NamedTensor& entry : grown.state()) other.set_state(entry.name, entry.tensor);
  for (const NamedCounter& entry : grown.counters()) other.set_counter(entry.name, entry.value);
  EXPECT_TRUE(everything(other) == everything(grown));
  grown.clear_state();
  EXPECT_TRUE(grown.state().empty());
  EXPECT_EQ(grown.groups(), 2U);
}

}  // namespace
}  // namespace mezzo::optim
