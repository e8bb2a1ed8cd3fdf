// Mixed precision as MindSpore's first guide shows it: LeNet-5, trained by build_train_network at
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
    add("pool", pool_);
    add("fc1", fc1_);
    add("fc2", fc2_);
    add("fc3", fc3);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = pool_(relu(conv1_(x)));
    y = pool_(relu(conv2_(y)));
    y = relu(fc1_(flatten(y, 1)));
    return fc3(relu(fc2_(y)));
  }

 private:
  nn::Conv2d conv1_{1, 6, 5};
  nn::Conv2d conv2_{6, 16, 5};
  nn::MaxPool2d pool_{2};
  nn::Linear fc1_{400, 120};  // 16 channels of 5x5
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

  // Automatically: the level decides.
  {
    LeNet5 net;
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto train_network = amp::build_train_network(net, loss_function, optimizer, {.level = "O2"});
    // MindSpore's scale starts at 2^24: the first steps only search for one that fits.
    amp::TrainStepResult result;
    int steps = 0;
    do {
      result = train_network(input, target);
      ++steps;
    } while (result.skipped && steps < 30);
    std::printf("O2:       loss %.6f, scale %.0f after %d steps\n", result.loss, result.scale,
                steps);
  }

  // By hand: everything in f16 except the last layer.
  {
    LeNet5 net;
    amp::add_flags_recursive(net.fc3, {.fp32 = true});
    amp::add_flags_recursive(net, {.fp16 = true});
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    amp::TrainStep train_network(net, loss_function, optimizer,
                                 amp::GradScaler(amp::FixedLossScaleManager(1)));
    const auto result = train_network(input, target);
    std::printf("by hand:  loss %.6f, scale %.0f, %s\n", result.loss, result.scale,
                result.skipped ? "skipped" : "stepped");
  }
}
