#include "mezzo/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "mezzo/train/profile.h"
#include "mezzo/train/step_statistics.h"

namespace mezzo::train {
namespace {

// Null if the options do not ask for any.
std::unique_ptr<amp::GradientStatistics> make_statistics(nn::Module& net,
                                                         const RunOptions& options) {
  if (options.histogram_every == 0) return nullptr;
  return std::make_unique<amp::GradientStatistics>(
      net, amp::GradientStatistics::Options{.every = options.histogram_every,
                                            .activations = options.activation_gradients});
}

Tensor plain_loss(const Tensor& logits, const Tensor& labels) {
  return cross_entropy(logits, labels);
}

void recompute_matching(nn::Module& net, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::vector<nn::Module*> modules = net.matching(pattern);
    check_arg(!modules.empty(), "recompute", "no module matches `", pattern,
              "`. `mezzo plan` shows the paths");
    for (nn::Module* module : modules) nn::recompute(*module);
  }
}

// Network, optimizer and model of a run.
struct Trainer {
  Trainer(const RunOptions& options, const Shape& image_shape, std::int64_t classes,
          std::function<void(amp::StepPhase)> on_phase = {})
      : net(make_model(options, image_shape, classes)),
        policy(amp::apply_options(*net, options.policy, options.precision)),
        statistics(make_statistics(*net, options)),
        optimizer(
            net->parameters(),
            {.lr = options.lr, .momentum = options.momentum, .weight_decay = options.weight_decay}),
        model(
            amp::TrainOneStepWithLossScale(
                *net,
                [smoothing = options.label_smoothing](const Tensor& logits, const Tensor& labels) {
                  return cross_entropy(logits, labels, {.label_smoothing = smoothing});
                },
                optimizer, make_scaler(options.loss_scale, options.policy),
                {.policy = policy,
                 .statistics = statistics.get(),
                 .processes = options.processes,
                 .on_phase = std::move(on_phase)}),
            plain_loss) {
    recompute_matching(*net, options.recompute);
    if (options.graph) model.train_step().set_execution(graph::captured(*net));
  }

  std::unique_ptr<nn::Module> net;
  amp::Policy policy;
  std::unique_ptr<amp::GradientStatistics> statistics;
  optim::Sgd optimizer;
  Model model;
};

data::Batch on_host(const data::Batch& batch) {
  return {.images = batch.images.to(kCpuDevice),
          .labels = batch.labels.to(kCpuDevice),
          .indices = batch.indices};
}

data::Shard shard_of(const RunOptions& options) {
  return options.processes != nullptr ? data::shard_of(*options.processes) : data::Shard{};
}

// Of all processes.
std::int64_t images_of_step(const RunOptions& options) {
  return options.batch_size * options.process_count();
}

// Tells the observer what fit() does, sets the learning rates, and gathers the result.
class Reporter final : public Callback {
 public:
  Reporter(const RunOptions& options, const Schedule& schedule, const data::Dataset& images,
           RunObserver& observer)
      : options_(options), schedule_(schedule), images_(images), observer_(observer) {}

  void on_train_begin(FitState& state) override {
    if (!state.resumed_from.empty()) observer_.on_resume(state.resumed_from, state.step);
    observer_.on_start(state.total_steps);
  }

  void on_epoch_begin(FitState& state) override {
    start_ = std::chrono::steady_clock::now();
    reset_peak_memory(options_.device);
    test_.reset();
    if (state.step_in_epoch == 0) mean_loss_ = MeanOfSteps{};
  }

  void on_step_begin(FitState& state) override {
    if (steps_ == 0) observer_.on_first_batch(on_host(*state.batch), images_);
    state.model.optimizer().set_lr(schedule_.at(state.step - 1));
  }

  void on_step_end(FitState& state) override {
    statistics_.add(state.result);
    // A step that is skipped for its loss changes nothing; one would make the epoch's mean NaN.
    if (std::isfinite(state.result.loss)) mean_loss_.add(state.result.loss);
    ++steps_;
    waited_ms_ += state.wait_ms;
    peak_bytes_ = std::max(peak_bytes_, memory_stats(options_.device).peak_bytes);
    observer_.on_step({.step = state.step,
                       .epoch = state.epoch,
                       .lr = state.lr,
                       .wait_ms = state.wait_ms,
                       .report = state.result});
    if (options_.should_stop && options_.should_stop()) state.stop = true;
  }

  void on_epoch_end(FitState& state) override {
    test_ = evaluation_of(state.metrics);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    observer_.on_epoch({.epoch = state.epoch,
                        .train_loss = mean_loss_.steps > 0 ? mean_loss_.value : std::nan(""),
                        .test = *test_,
                        .seconds = elapsed.count()});
  }

  void save(io::Checkpoint& checkpoint) const override {
    checkpoint.values[kMeanLoss] = {{"value", mean_loss_.value}, {"steps", mean_loss_.steps}};
    add_configuration(checkpoint, configuration_of(options_));
  }

  void load(const io::Checkpoint& checkpoint) override {
    check_configuration(checkpoint, configuration_of(options_));
    mean_loss_ = {.value = checkpoint.value<double>(kMeanLoss, "value"),
                  .steps = checkpoint.value<std::int64_t>(kMeanLoss, "steps")};
  }

  RunResult result(const FitResult& fit) const {
    RunResult result;
    statistics_.write(result, images_of_step(options_));
    result.test = test_.value_or(Evaluation{});
    result.steps = fit.steps;
    result.epochs = fit.epochs;
    result.skipped_steps = fit.skipped_steps;
    result.peak_bytes = peak_bytes_;
    if (steps_ > 0) result.wait_ms_mean = waited_ms_ / static_cast<double>(steps_);
    result.stopped = fit.stopped && fit.steps < schedule_.total_steps;
    return result;
  }

  // False if the run had nothing left to do, or was stopped in the middle of an epoch.
  bool has_evaluated() const { return test_.has_value(); }

  static Evaluation evaluation_of(const std::map<std::string, double>& metrics) {
    return {.loss = metrics.at("loss"), .accuracy = metrics.at("accuracy")};
  }

 private:
  static constexpr const char* kMeanLoss = "mean_loss";

  // Of the steps of an epoch.
  struct MeanOfSteps {
    double value = 0;
    std::int64_t steps = 0;

    void add(double loss) { value += (loss - value) / static_cast<double>(++steps); }
  };

  const RunOptions& options_;
  const Schedule& schedule_;
  const data::Dataset& images_;  // that the network is trained on
  RunObserver& observer_;
  StepStatistics statistics_;
  MeanOfSteps mean_loss_;
  std::optional<Evaluation> test_{};  // of the epoch that ended last
  std::int64_t steps_ = 0;            // of this part of the run
  double waited_ms_ = 0;              // for their batches
  std::int64_t peak_bytes_ = 0;
  std::chrono::steady_clock::time_point start_{};  // of the epoch
};

data::Batch generated_batch(std::int64_t size, const Shape& image, std::int64_t classes) {
  data::Batch batch;
  batch.images = to_format(randn({size, image[0], image[1], image[2]}), Format::kChannelsLast);
  batch.labels = empty({size}, DType::kI64);
  auto* label = batch.labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < size; ++i) label[i] = i % classes;
  return batch;
}

CheckpointConfig checkpoint_config(const CheckpointingOptions& options) {
  return {.folder = options.folder,
          .every_steps = options.every,
          .keep = options.keep.value_or(CheckpointConfig{}.keep),
          .best = options.keep_best ? "accuracy" : ""};
}

RunResult train(Trainer& trainer, const RunOptions& options, const DataPair& data,
                RunObserver& observer) {
  data::DataLoader loader(*data.train, {.batch_size = options.batch_size,
                                        .shuffle = options.shuffle,
                                        .drop_remainder = true,
                                        .seed = options.seed,
                                        .workers = options.workers,
                                        .device = options.device,
                                        .shard = shard_of(options)});
  data::DataLoader test_loader(*data.test, {.batch_size = options.batch_size,
                                            .shuffle = false,
                                            .workers = options.workers,
                                            .device = options.device,
                                            .shard = shard_of(options)});
  const std::int64_t all_steps = options.epochs * loader.steps_per_epoch();
  const std::int64_t total_steps = std::min(all_steps, options.steps.value_or(all_steps));
  const Schedule schedule = schedule_of(options, loader.steps_per_epoch(), total_steps);
  Reporter reporter(options, schedule, *data.train, observer);
  std::optional<ModelCheckpoint> checkpoints;
  FitOptions fit{.callbacks = {&reporter}, .steps = total_steps, .validation = &test_loader};
  if (!options.checkpoints.folder.empty()) {
    fit.callbacks.push_back(&checkpoints.emplace(checkpoint_config(options.checkpoints)));
    if (options.checkpoints.resume) fit.resume = options.checkpoints.folder;
  }
  RunResult result = reporter.result(trainer.model.fit(options.epochs, loader, fit));
  if (!reporter.has_evaluated() && !result.stopped) {
    result.test = Reporter::evaluation_of(trainer.model.eval(test_loader));
  }
  if (trainer.statistics != nullptr) observer.on_gradients(*trainer.statistics);
  return result;
}

}  // namespace

amp::GradScaler make_scaler(const LossScaling& scaling, const amp::Policy& policy) {
  using Kind = LossScaling::Kind;
  Kind kind = scaling.kind;
  // bf16 has f32's range: its gradients do not underflow, so there is nothing to scale.
  if (kind == Kind::kDefault) {
    kind = policy.dtype() == DType::kF16 ? Kind::kDynamic : Kind::kNone;
  }
  if (kind == Kind::kNone) return amp::GradScaler({}, false);
  if (kind == Kind::kDynamic) return amp::GradScaler();
  return amp::GradScaler(amp::fixed_loss_scale(scaling.scale));
}

DataPair open_data(const std::string& spec, const data::OpenOptions& options) {
  return {data::open_dataset(spec, data::Split::kTrain, options),
          data::open_dataset(spec, data::Split::kTest, options)};
}

DataPair open_data(const RunOptions& options) {
  return open_data(options.data, {.image_size = options.image_size, .augment = options.augment});
}

std::unique_ptr<nn::Module> make_model(const RunOptions& options, const Shape& image_shape,
                                       std::int64_t classes) {
  manual_seed(options.seed);
  auto net = models::create(options.model, {.in_channels = image_shape[0],
                                            .num_classes = classes,
                                            .image_size = image_shape[1],
                                            .zero_init_residual = options.zero_init_residual});
  if (!options.weights.empty()) net->load_state(read_weights(options.weights));
  // Weights are drawn on the host, so that every device gets the same ones.
  net->to(options.device);
  return net;
}

RunResult run(const RunOptions& options, const DataPair& data, RunObserver& observer,
              std::unique_ptr<nn::Module>* trained) {
  check_options(options);
  Trainer trainer(options, data.train->image_shape(), data.train->num_classes());
  RunResult result = train(trainer, options, data, observer);
  if (trained != nullptr) *trained = std::move(trainer.net);
  return result;
}

RunResult bench(const RunOptions& options, const BenchOptions& bench, RunObserver& observer) {
  check_options(options);
  constexpr std::int64_t kMostSteps = 1'000'000'000;
  check_arg(bench.warmup >= 0 && bench.warmup <= kMostSteps && bench.steps >= 1 &&
                bench.steps <= kMostSteps,
            "bench", "--warmup must not be negative and --steps at least 1, both at most ",
            kMostSteps, ": ", bench.warmup, " and ", bench.steps);
  const models::ModelConfig usual = models::usual_config(options.model);
  const std::int64_t size = options.image_size > 0 ? options.image_size : usual.image_size;
  const Shape image{usual.in_channels, size, size};
  std::function<void(amp::StepPhase)> on_phase;
  std::optional<ListenToKernels> listening;
  if (bench.profile != nullptr) {
    on_phase = [&](amp::StepPhase phase) { bench.profile->begin(phase); };
    listening.emplace(*bench.profile);
  }
  Trainer trainer(options, image, usual.num_classes, on_phase);
  data::Batch batch = generated_batch(options.batch_size, image, usual.num_classes);
  batch.images = batch.images.to(options.device);
  batch.labels = batch.labels.to(options.device);
  reset_peak_memory(options.device);
  observer.on_start(bench.warmup + bench.steps);
  StepStatistics statistics;
  for (std::int64_t i = 0; i < bench.warmup + bench.steps; ++i) {
    if (bench.profile != nullptr && i == bench.warmup) bench.profile->reset();
    // What a card's libraries try out at first, and take memory for, no later step takes.
    const bool is_card = options.device.type != DeviceType::kCpu;
    if (is_card && i == bench.warmup) reset_peak_memory(options.device);
    const amp::TrainStepResult report = trainer.model.train_step()(batch.images, batch.labels);
    if (i >= bench.warmup) statistics.add(report);
    observer.on_step({.step = i + 1, .epoch = 1, .lr = options.lr, .report = report});
  }
  RunResult result;
  statistics.write(result, images_of_step(options));
  result.peak_bytes = memory_stats(options.device).peak_bytes;
  return result;
}

Evaluation evaluate(nn::Module& net, const data::Dataset& dataset, std::int64_t batch_size,
                    const amp::Policy& policy, std::int64_t workers,
                    const std::function<void(const Tensor& logits)>& on_logits) {
  const nn::Inference inference(net);
  const Device device = net.device();
  data::DataLoader loader(
      dataset, {.batch_size = batch_size, .shuffle = false, .workers = workers, .device = device});
  MeanLoss loss;
  TopK accuracy;
  for (data::Batch batch; loader.next(batch);) {
    const Tensor logits = amp::forward(net, batch.images, policy);
    if (on_logits) on_logits(logits);
    const double of_batch = cross_entropy(logits, batch.labels).item();
    loss.update(logits, batch.labels, of_batch);
    accuracy.update(logits, batch.labels, of_batch);
  }
  return {.loss = loss.value(), .accuracy = accuracy.value()};
}

}  // namespace mezzo::train
