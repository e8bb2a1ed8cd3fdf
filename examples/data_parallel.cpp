// LeNet-5 trained by several processes, each on its part of every batch:
//
//   mpirun -n 2 build/bin/data_parallel
//
// Started without mpirun, the same program is a single process.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

int main() {
  const auto processes = distributed::connect();
  const data::Shard shard = data::shard_of(*processes);
  const auto digits = data::open_dataset("digits", data::Split::kTrain);
  const auto test_digits = data::open_dataset("digits", data::Split::kTest);
  data::DataLoader loader(*digits, {.batch_size = 32, .drop_remainder = true, .shard = shard});
  data::DataLoader test_loader(*test_digits, {.shuffle = false, .shard = shard});

  models::LeNet5 net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
  train::Model model(
      net, nn::CrossEntropyLoss(), optimizer,
      {.amp = {.level = "O2", .dtype = DType::kF16, .step = {.processes = processes.get()}}});
  const train::FitResult result = model.fit(1, loader, {.validation = &test_loader});
  if (processes->rank() > 0) return 0;
  std::printf("processes: %d, steps: %lld, accuracy %.3f, loss scale %.0f\n", processes->size(),
              static_cast<long long>(result.steps), result.metrics.at("accuracy"),
              model.train_step().scaler().get_scale());
}
