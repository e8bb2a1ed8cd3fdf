// The experiment of MindSpore's tutorial: ResNet-50 on CIFAR-10 in mixed precision and without, and
// a table of step time and accuracy.
//
//   resnet50_cifar10 [DATA [STEPS]]
//
// DATA is `cifar10:DIR` or `shapes`; STEPS ends both runs early.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kEpochs = 10;
constexpr std::int64_t kWarmupEpochs = 5;

struct Result {
  double step_ms = 0;
  std::int64_t steps = 0;
  double accuracy = 0;
};

// Trains at that level and prints every hundredth loss.
Result train(const std::string& level, const train::DataPair& data, std::int64_t most_steps) {
  manual_seed(1);
  const auto net = models::create("resnet50_cifar", {.num_classes = data.train->num_classes()});
  optim::Sgd optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = amp::build_train_network(
      *net,
      [](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); },
      optimizer,
      {.level = level,
       .dtype = DType::kBf16,
       .keep_batchnorm_fp32 = false,
       .loss_scale_manager = amp::LossScaleManager()});

  data::DataLoader loader(*data.train, {.batch_size = kBatch, .drop_remainder = true, .seed = 1});
  const std::int64_t total = std::min(most_steps, kEpochs * loader.steps_per_epoch());
  const train::Schedule schedule{.kind = train::ScheduleKind::kPoly,
                                 .lr = 0.1,
                                 .total_steps = total,
                                 .warmup_steps = total * kWarmupEpochs / kEpochs};
  std::vector<double> times;
  for (data::Batch batch; static_cast<std::int64_t>(times.size()) < total;) {
    if (!loader.next(batch)) continue;  // the next epoch
    const auto i = static_cast<std::int64_t>(times.size());
    optimizer.set_lr(schedule.at(i));
    const amp::TrainStepResult result = step(batch.images, batch.labels);
    times.push_back(result.total_ms());
    if (i % 100 == 0) {
      std::printf("%s step %lld of %lld: loss %.4f, %.1f ms\n", level.c_str(),
                  static_cast<long long>(i + 1), static_cast<long long>(total), result.loss,
                  result.total_ms());
    }
  }
  std::nth_element(times.begin(), times.begin() + total / 2, times.end());
  // What was set on the network counts in evaluation, too.
  const double accuracy =
      train::evaluate(*net, *data.test, kBatch, {.level = amp::Level::kO0}).accuracy;
  return {times[static_cast<std::size_t>(total / 2)], total, accuracy};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string spec = argc > 1 ? argv[1] : "shapes";
  std::int64_t steps = 1 << 30;
  if (argc > 2) {
    const char* end = argv[2] + std::strlen(argv[2]);
    const auto parsed = std::from_chars(argv[2], end, steps);
    if (parsed.ec != std::errc() || parsed.ptr != end || steps < 1) {
      std::fprintf(stderr, "resnet50_cifar10: `%s` is no number of steps\n", argv[2]);
      return 2;
    }
  }
  try {
    const train::DataPair data = train::open_data(spec);
    std::printf("network    mixed  ms/step  steps  accuracy\n");
    for (const char* level : {"O0", "O3"}) {
      const Result result = train(level, data, steps);
      std::printf("ResNet-50  %-5s  %7.1f  %5lld  %.6f\n",
                  std::strcmp(level, "O0") == 0 ? "no" : "yes", result.step_ms,
                  static_cast<long long>(result.steps), result.accuracy);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "resnet50_cifar10: %s\n", error.what());
    return 2;
  }
}
