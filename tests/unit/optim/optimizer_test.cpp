// Tests what all optimizers inherit from Optimizer.
#include "mezzo/optim/optimizer.h"

#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// One group for each parameter; the update of one of them fails after creating its state.
class Failing final : public Optimizer {
 public:
  explicit Failing(const std::vector<Tensor>& params) : Optimizer("Failing") {
    for (const Tensor& param : params) add_group({param}, 0.1, ParamUpdate::kStochastic);
    sums_.resize(params.size());
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> result;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].defined()) result.push_back({concat("sum.", i), sums_[i]});
    }
    return result;
  }
  std::vector<NamedCounter> counters() const override {
    std::vector<NamedCounter> result;
    append_shared_counters(result);
    return result;
  }
  void set_state(std::string_view /*name*/, const Tensor& /*tensor*/) override {}
  void set_counter(std::string_view /*name*/, std::int64_t /*value*/) override {}
  void clear_state() override { clear_shared_state(); }

  std::size_t failing_group = 0;

 private:
  void update(std::size_t group, const std::vector<Active>& active, double /*inv_scale*/,
              UpdateQueue* /*queue*/) override {
    for (const Active& a : active) {
      ensure(sums_[a.index], [&] { return zeros_like(a.index); });
      half_update(a.index);
    }
    if (group == failing_group) fail(name(), "out of luck");
  }

  std::deque<Tensor> sums_;
};

std::vector<std::string> names_of(const std::vector<NamedTensor>& state) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : state) names.push_back(entry.name);
  return names;
}

// State from a failed step would be taken for that of a completed one: Sgd's momentum would be
// dampened, as it is from the second step on.
TEST(Optimizer, AFailedUpdateLeavesNoStateBehind) {
  std::vector<Tensor> params;
  for (int i = 0; i < 3; ++i) {
    params.push_back(ones({4}, DType::kBf16).set_requires_grad(true));
    params.back().set_grad(ones({4}));
  }
  Failing optimizer(params);
  const auto offset = [&] { return optimizer.counters()[1].value; };
  const std::int64_t before = offset();
  EXPECT_THAT(message_of([&] { optimizer.step(); }), testing::HasSubstr("out of luck"));
  EXPECT_THAT(names_of(optimizer.state()), testing::ElementsAre());
  EXPECT_EQ(offset(), before);
  EXPECT_EQ(optimizer.updates(), 0);
  // The first group is updated before the second one fails, and keeps its state.
  optimizer.failing_group = 1;
  EXPECT_THAT(message_of([&] { optimizer.step(); }), testing::HasSubstr("out of luck"));
  EXPECT_THAT(names_of(optimizer.state()), testing::ElementsAre("sum.0"));
  EXPECT_GT(offset(), before);
  optimizer.failing_group = 3;
  optimizer.step();
  EXPECT_EQ(names_of(optimizer.state()).size(), 3U);
  EXPECT_EQ(optimizer.updates(), 1);
}

template <class Optimizer, class Options>
void expect_cleared_is_new(const Options& options, DType dtype) {
  const Tensor param = ones({4}, dtype).set_requires_grad(true);
  Optimizer optimizer({param}, options);
  const auto train = [&] {
    for (int step = 0; step < 3; ++step) {
      param.set_grad(gradient({4}, step));
      optimizer.step();
    }
    return param.to_vector<float>();
  };
  const auto first = train();
  const std::vector<NamedTensor> state = optimizer.state();
  const auto gathered = state.at(0).tensor.to_vector<float>();
  optimizer.clear_state();
  EXPECT_THAT(names_of(optimizer.state()), testing::ElementsAre());
  EXPECT_TRUE(optimizer.counters().empty());
  EXPECT_EQ(state.at(0).tensor.to_vector<float>(), gathered) << "whoever holds it keeps it";
  copy_elements(ones({4}, dtype), param);
  EXPECT_EQ(train(), first);
}

TEST(Optimizer, WithoutItsStateIsLikeANewOne) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const LearningRate lr{0.1, 0.2, 0.3};
    expect_cleared_is_new<Sgd>(SgdOptions{.lr = lr, .momentum = 0.9, .dampening = 0.5}, dtype);
    expect_cleared_is_new<Sgd>(
        SgdOptions{.lr = lr, .momentum = 0.9, .param_update = ParamUpdate::kKahan}, dtype);
    expect_cleared_is_new<Adam>(AdamOptions{.lr = lr}, dtype);
  }
}

}  // namespace
}  // namespace mezzo::optim
