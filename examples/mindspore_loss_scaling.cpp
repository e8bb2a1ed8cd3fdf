// Mixed precision as MindSpore's current guide shows it. It shows a level, precision by hand for
// single layers and single tensors, and a training step with a dynamic loss scaler written as a
// function. The same step is then built by build_train_network and used in a Model.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

// 784-512-512-10, every layer set to f16.
class NetworkFp16 : public nn::Module {
 public:
  NetworkFp16() {
    for (nn::Linear* layer : {&fc1_, &fc2_, &fc3_}) amp::to_float(*layer, DType::kF16);
    add("fc1", fc1_);
    add("fc2", fc2_);
    add("fc3", fc3_);
  }
  Tensor forward(const Tensor& x) override { return fc3_(relu(fc2_(relu(fc1_(flatten(x, 1)))))); }

 private:
  nn::Linear fc1_{784, 512};  // 28x28 pixels
  nn::Linear fc2_{512, 512};
  nn::Linear fc3_{512, 10};
};

// One layer in f16, with casts by hand to f16 and back.
class NetworkByHand : public nn::Module {
 public:
  NetworkByHand() { add("fc", fc_); }
  Tensor forward(const Tensor& x) override {
    const Tensor flat = flatten(x, 1).astype(DType::kF16);
    return linear(flat, fc_.weight().astype(DType::kF16), fc_.bias()).astype(DType::kF32);
  }

 private:
  nn::Linear fc_{784, 10};
};

// Trains for some steps and returns the last loss. The gradients are computed as functions of the
// loss, and the optimizer gets only finite ones.
double train_by_hand(nn::Module& net, data::DataLoader& loader, int steps) {
  amp::DynamicLossScaler scaler(/*scale_value=*/1024, /*scale_factor=*/2, /*scale_window=*/50);
  const std::vector<Tensor> weights = net.parameters();
  optim::Sgd optimizer(weights, {.lr = 1e-2});
  data::Batch batch;
  const auto value_and_gradients = value_and_grad(
      [&] { return scaler.scale(cross_entropy(net(batch.images), batch.labels)); }, weights);

  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    loader.next(batch);
    const ValueAndGrad result = value_and_gradients();
    loss = scaler.unscale(result.value).item();
    const bool finite = amp::all_finite(result.grads);
    if (finite) {
      const std::vector<Tensor> gradients = scaler.unscale(result.grads);
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i].set_grad(gradients[i]);
      optimizer.step();
      optimizer.zero_grad();
    }
    scaler.adjust(finite);
  }
  return loss;
}

}  // namespace

int main() {
  const auto digits = data::open_dataset("digits", data::Split::kTrain);
  data::DataLoader loader(*digits, {.batch_size = 64});
  manual_seed(1);

  models::Mlp net;
  amp::auto_mixed_precision(net, "O2", DType::kF16);
  std::printf("level O2:               loss %.4f\n", train_by_hand(net, loader, 30));

  NetworkFp16 by_layer;
  std::printf("layers set to f16:      loss %.4f\n", train_by_hand(by_layer, loader, 30));

  NetworkByHand by_hand;
  std::printf("cast by hand:           loss %.4f\n", train_by_hand(by_hand, loader, 30));

  const auto loss_function = [](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels);
  };
  const amp::TrainNetworkOptions options{.level = "O2",
                                         .loss_scale_manager = amp::FixedLossScaleManager()};
  {
    models::Mlp model;
    optim::Sgd optimizer(model.parameters(), {.lr = 1e-2});
    auto network = amp::build_train_network(model, loss_function, optimizer, options);
    double loss = 0;
    data::Batch batch;
    for (int step = 0; step < 30; ++step) {
      loader.next(batch);
      loss = network(batch.images, batch.labels).loss;
    }
    std::printf("build_train_network:    loss %.4f\n", loss);
  }

  models::Mlp network;
  optim::Sgd optimizer(network.parameters(), {.lr = 1e-2});
  train::Model model(network, loss_function, optimizer, {.metrics = {"accuracy"}, .amp = options});
  train::LossMonitor monitor(10);
  loader.seek({});
  model.fit(1, loader, {.callbacks = {&monitor}, .steps = 30});
}
