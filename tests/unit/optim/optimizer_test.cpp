// What all optimizers have from Optimizer.
#include "mezzo/optim/optimizer.h"

#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

std::vector<std::string> names_of(const std::vector<NamedTensor>& state) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : state) names.push_back(entry.name);
  return names;
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
