#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  const auto digits = data::open_dataset("digits", data::Split::kTrain);
  data::DataLoader loader(*digits, {.batch_size = 64, .drop_remainder = true});
  models::LeNet5 net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  amp::GradScaler scaler;
  Tensor loss;
  for (data::Batch batch; loader.next(batch);) {
    {
      const amp::Autocast region(DType::kF16);
      loss = cross_entropy(net(batch.images), batch.labels);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  std::printf("loss %.4f, scale %.0f\n", loss.item(), scaler.get_scale());
}
