// Mixed precision as MindSpore's first guide shows it: LeNet-5 trained by build_train_network at
// level O2, and with one layer kept in f32 by flags.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

class LeNet5 : public nn::Module {
 public:
  LeNet5() {
    add("conv1", conv1_);
    add("conv2", conv2_);
    add("fc1", fc1_);
    add("fc2", fc2_);
    add("fc3", fc3);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = max_pool2d(relu(conv1_(x)), 2);
    y = max_pool2d(relu(conv2_(y)), 2);
    y = relu(fc1_(flatten(y, 1)));
    return fc3(relu(fc2_(y)));
  }

 private:
  nn::Conv2d conv1_{1, 6, 5};
  nn::Conv2d conv2_{6, 16, 5};
  nn::Linear fc1_{16 * 5 * 5, 120};
  nn::Linear fc2_{120, 84};

 public:
  nn::Linear fc3{84, 10};
};

Tensor loss_function(const Tensor& prediction, const Tensor& target) {
  return mse_loss(prediction, target);
}

}  // namespace

int main() {
  manual_seed(1);
  const Tensor input = full({1, 1, 32, 32}, 0.01);
  const Tensor target = zeros({1, 10});

  // Automatic: the level decides.
  {
    LeNet5 net;
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto train_network = amp::build_train_network(net, loss_function, optimizer, {.level = "O2"});
    const auto result = train_network(input, target);
    std::printf("O2:       loss %.6f, scale %.0f, %s\n", result.loss, result.scale,
                result.skipped ? "skipped" : "stepped");
  }

  // By hand: everything in f16 but the last layer.
  {
    LeNet5 net;
    amp::add_flags_recursive(net.fc3, {.fp32 = true});
    amp::add_flags_recursive(net, {.fp16 = true});
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    amp::TrainOneStepWithLossScale train_network(net, loss_function, optimizer,
                                                 amp::GradScaler(amp::FixedLossScaleManager(1)));
    const auto result = train_network(input, target);
    std::printf("by hand:  loss %.6f, scale %.0f, %s\n", result.loss, result.scale,
                result.skipped ? "skipped" : "stepped");
  }
}
