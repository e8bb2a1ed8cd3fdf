// The experiment of MindSpore's tutorial with its settings: ResNet-50 on CIFAR-10 in f16 at level
// O3 and in f32. Prints a table of step time and accuracy.
//
//   resnet50_cifar10 [DATA [STEPS [NETWORK [FOLDER [DTYPE]]]]]
//
// DATA is `cifar10:DIR`, or `shapes` for a try. STEPS ends both runs early; 0 trains to the end.
// With a FOLDER other than `-`, a checkpoint is written after every 5 epochs, and the program
// resumes from the last one. DTYPE is f16, or bf16, which CPUs with bf16 instructions compute
// faster.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

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

// Climbs in a straight line from 0.01 to 0.1 during the first half of the steps, then falls along a
// parabola to 0: the tutorial's `poly` with 5 of 10 epochs of warm-up.
optim::LearningRate learning_rate(std::int64_t steps) {
  const train::Schedule schedule{.kind = train::ScheduleKind::kPoly,
                                 .lr = 0.1,
                                 .init_lr = 0.01,
                                 .total_steps = steps,
                                 .warmup_steps = steps * kWarmupEpochs / kEpochs};
  return schedule.values();
}

struct Settings {
  std::string network = "resnet50_cifar";
  std::int64_t most_steps = 0;  // 0: all
  std::string folder{};         // empty: no checkpoints
  DType dtype = DType::kF16;
};

// Trains at that level, reports progress, and evaluates.
Result train_at(const std::string& level, const Settings& settings, const train::DataPair& data) {
  manual_seed(1);
  const Shape image = data.train->image_shape();
  const auto net = models::create(
      settings.network,
      {.in_channels = image[0], .num_classes = data.train->num_classes(), .image_size = image[1]});
  data::DataLoader loader(*data.train, {.batch_size = kBatch, .drop_remainder = true, .seed = 1});
  data::DataLoader test_loader(*data.test, {.batch_size = kBatch, .shuffle = false});
  const std::int64_t all_steps = kEpochs * loader.steps_per_epoch();
  const std::int64_t steps =
      settings.most_steps > 0 ? std::min(settings.most_steps, all_steps) : all_steps;

  optim::Sgd optimizer(net->parameters(), {.lr = learning_rate(steps), .momentum = 0.9});
  train::Model model(
      *net,
      [](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); },
      optimizer,
      {.metrics = {"acc"},
       .amp = {.level = level,
               .dtype = settings.dtype,
               .keep_batchnorm_fp32 = false,
               .loss_scale_manager = amp::LossScaleManager()}});

  train::TimeMonitor time_monitor;
  train::LossMonitor loss_monitor(100);
  train::StepTimer timer(100);
  train::FitOptions options{.callbacks = {&time_monitor, &loss_monitor, &timer}, .steps = steps};
  std::optional<train::ModelCheckpoint> checkpoints;
  if (!settings.folder.empty()) {
    const std::string prefix = "resnet-" + level;
    options.resume = settings.folder + "/" + prefix;
    checkpoints.emplace(train::CheckpointConfig{
        .folder = settings.folder, .every_epochs = 5, .keep = 10, .prefix = prefix});
    options.callbacks.push_back(&*checkpoints);
  }
  const train::FitResult result = model.fit(kEpochs, loader, options);
  return {timer.median_ms(), result.steps, model.eval(test_loader).at("accuracy")};
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int place, const char* otherwise) {
    return std::string(argc > place ? argv[place] : otherwise);
  };
  const std::string spec = argument(1, "shapes");
  const std::string steps = argument(2, "0");
  Settings settings{.network = argument(3, "resnet50_cifar"), .folder = argument(4, "-")};
  if (settings.folder == "-") settings.folder.clear();
  const auto [end, failure] =
      std::from_chars(steps.data(), steps.data() + steps.size(), settings.most_steps);
  const std::optional<DType> dtype = parse_dtype(argument(5, "f16"));
  if (failure != std::errc() || end != steps.data() + steps.size() || settings.most_steps < 0) {
    std::fprintf(stderr, "resnet50_cifar10: `%s` is not a number of steps\n", steps.c_str());
    return 2;
  }
  if (!dtype.has_value() || !is_lower(*dtype)) {
    std::fprintf(stderr, "resnet50_cifar10: `%s` is neither f16 nor bf16\n", argv[5]);
    return 2;
  }
  settings.dtype = *dtype;
  try {
    // Cropped, flipped and enlarged as in the tutorial; the generated sets stay as they are.
    const train::DataPair data = train::open_data(
        spec, {.image_size = spec.starts_with("cifar10") ? 224 : 0, .augment = true});
    std::string table = "network         mixed  ms/step  steps  accuracy\n";
    for (const char* level : {"O0", "O3"}) {
      const Result result = train_at(level, settings, data);
      char line[128];
      std::snprintf(line, sizeof(line), "%-14s  %-5s  %7.1f  %5lld  %.6f\n",
                    settings.network.c_str(), std::strcmp(level, "O0") == 0 ? "no" : "yes",
                    result.step_ms, static_cast<long long>(result.steps), result.accuracy);
      table += line;
    }
    std::printf("%s", table.c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "resnet50_cifar10: %s\n", error.what());
    return 2;
  }
}
