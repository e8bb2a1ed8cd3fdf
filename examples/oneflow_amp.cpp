// Mixed precision as OneFlow's guide shows it: a network of two layers is trained in f16 with the
// four parameters of OneFlow's GradScaler. Where OneFlow needs a graph, this step is plain code;
// oneflow_graph.cpp has the graph.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  const Device device = is_cuda_available() ? Device{DeviceType::kCuda} : kCpuDevice;
  std::printf("Using %s device\n", concat(device).c_str());
  manual_seed(1);
  nn::Sequential model;
  model.emplace<nn::Linear>(256, 128);
  model.emplace<nn::ReLU>();
  model.emplace<nn::Linear>(128, 10);
  model.to(device);
  amp::auto_mixed_precision(model, "O2", DType::kF16);

  optim::Sgd optimizer(model.parameters(), {.lr = 1e-3});
  amp::GradScaler scaler = amp::oneflow_grad_scaler(/*init_scale=*/4096, /*growth_factor=*/2,
                                                    /*backoff_factor=*/0.5,
                                                    /*growth_interval=*/1000);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 100; ++step) {
    const Tensor x = randn({128, 256}).to(device);
    const Tensor labels = ones({128}, DType::kI64).to(device);
    const Tensor loss = cross_entropy(model(x), labels);
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    last = loss.item();
    if (step == 0) first = last;
  }
  std::printf("loss %.4f, then %.4f; scale %.0f\n", first, last, scaler.get_scale());
  return last < first ? 0 : 1;
}
