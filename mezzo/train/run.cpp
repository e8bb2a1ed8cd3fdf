#include "mezzo/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/median.h"

namespace mezzo::train {
namespace {

// Gathers the steps of a run into its result.
class Statistics {
 public:
  void add(const amp::TrainStepResult& report) {
    total_.push_back(report.total_ms());
    forward_.push_back(report.forward_ms);
    backward_.push_back(report.backward_ms);
    update_.push_back(report.update_ms);
    skipped_ += report.skipped ? 1 : 0;
  }

  std::int64_t steps() const { return std::ssize(total_); }
  std::int64_t skipped() const { return skipped_; }

  void write(RunResult& result, std::int64_t batch_size) const {
    result.steps = static_cast<std::int64_t>(total_.size());
    result.skipped_steps = skipped_;
    if (total_.empty()) return;
    result.step_ms_median = median(total_);
    result.step_ms_min = *std::min_element(total_.begin(), total_.end());
    result.step_ms_max = *std::max_element(total_.begin(), total_.end());
    result.forward_ms_median = median(forward_);
    result.backward_ms_median = median(backward_);
    result.update_ms_median = median(update_);
    result.images_per_s = 1000.0 * static_cast<double>(batch_size) / result.step_ms_median;
  }

 private:
  std::vector<double> total_;
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> update_;
  std::int64_t skipped_ = 0;
};

// Null if the options do not ask for any.
std::unique_ptr<amp::GradientStatistics> make_statistics(nn::Module& net,
                                                         const RunOptions& options) {
  if (options.histogram_every == 0) return nullptr;
  return std::make_unique<amp::GradientStatistics>(
      net, amp::GradientStatistics::Options{.every = options.histogram_every,
                                            .activations = options.activation_gradients});
}

// Network, optimizer and step of a run.
struct Trainer {
  Trainer(const RunOptions& options, const Shape& image_shape, std::int64_t classes)
      : net(make_model(options, image_shape, classes)),
        policy(amp::apply_options(*net, options.policy, options.precision)),
        statistics(make_statistics(*net, options)),
        optimizer(
            net->parameters(),
            {.lr = options.lr, .momentum = options.momentum, .weight_decay = options.weight_decay}),
        step(*net,
             [smoothing = options.label_smoothing](const Tensor& logits, const Tensor& labels) {
               return cross_entropy(logits, labels, {.label_smoothing = smoothing});
             },
             optimizer, make_scaler(options.loss_scale, options.policy),
             {.policy = policy, .statistics = statistics.get()}) {}

  std::unique_ptr<nn::Module> net;
  amp::Policy policy;
  std::unique_ptr<amp::GradientStatistics> statistics;
  optim::Sgd optimizer;
  amp::TrainOneStepWithLossScale step;
};

// The loop over epochs and steps.
class Loop {
 public:
  Loop(const RunOptions& options, const DataPair& data, RunObserver& observer)
      : options_(options),
        data_(data),
        observer_(observer),
        loader_(*data.train, {.batch_size = options.batch_size,
                              .shuffle = options.shuffle,
                              .drop_remainder = true,
                              .seed = options.seed,
                              .workers = options.workers}),
        total_steps_(std::min(options.epochs * loader_.steps_per_epoch(),
                              options.steps.value_or(options.epochs * loader_.steps_per_epoch()))),
        schedule_(schedule_of(options, loader_.steps_per_epoch(), total_steps_)) {}

  RunResult run(Trainer& trainer) {
    const std::int64_t first_step = resume(trainer);
    observer_.on_start(total_steps_);
    RunResult result;
    while (step_ < total_steps_ && !stop_) result.test = run_epoch(trainer, result);
    if (!checkpoints().folder.empty() && step_ != written_) write_checkpoint(trainer);
    if (step_ == first_step) result.test = evaluate_net(trainer);
    statistics_.write(result, options_.batch_size);
    result.epochs = epochs_;
    result.steps = step_;
    result.skipped_steps = skipped_steps();
    result.stopped = stop_ && step_ < total_steps_;
    if (trainer.statistics != nullptr) observer_.on_gradients(*trainer.statistics);
    if (step_ > first_step) {
      result.wait_ms_mean = waited_ms_ / static_cast<double>(step_ - first_step);
    }
    return result;
  }

 private:
  Evaluation run_epoch(Trainer& trainer, RunResult& result) {
    const auto start = std::chrono::steady_clock::now();
    epochs_ = loader_.position().epoch + 1;
    trainer.net->train(true);
    cpu_allocator().reset_peak();
    for (data::Batch batch; step_ < total_steps_ && !stop_ && next_batch(batch);) {
      run_step(trainer, batch);
      if (checkpoints().every > 0 && step_ % checkpoints().every == 0) write_checkpoint(trainer);
    }
    result.peak_bytes = std::max(result.peak_bytes, cpu_allocator().stats().peak_bytes);
    if (stop_ && loader_.position().step < loader_.steps_per_epoch()) return {};
    EpochEvent event{.epoch = epochs_, .train_loss = mean_loss_, .test = evaluate_net(trainer)};
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    event.seconds = elapsed.count();
    observer_.on_epoch(event);
    end_epoch(trainer);
    return event.test;
  }

  // Goes to the beginning of the next epoch, unless this one was left in the middle.
  void end_epoch(Trainer& trainer) {
    data::Batch none;
    if (loader_.position().step == loader_.steps_per_epoch()) loader_.next(none);
    if (loader_.position().step != 0) return;
    mean_loss_ = 0;
    steps_in_mean_ = 0;
    if (!checkpoints().folder.empty() && checkpoints().every == 0) write_checkpoint(trainer);
  }

  Evaluation evaluate_net(Trainer& trainer) {
    return evaluate(*trainer.net, *data_.test, options_.batch_size, trainer.policy,
                    options_.workers);
  }

  std::int64_t skipped_steps() const { return skipped_before_ + statistics_.skipped(); }

  const CheckpointingOptions& checkpoints() const { return options_.checkpoints; }

  TrainingState state_of(Trainer& trainer) {
    return {*trainer.net, trainer.optimizer, trainer.step.scaler(), loader_};
  }

  void write_checkpoint(Trainer& trainer) {
    io::Checkpoint checkpoint = capture(state_of(trainer), step_);
    checkpoint.values["progress"] = {
        {"mean_loss", mean_loss_}, {"steps_in_mean", steps_in_mean_}, {"skipped", skipped_steps()}};
    add_configuration(checkpoint, configuration_of(options_));
    io::write_checkpoint(checkpoints().folder, checkpoint, {.keep = checkpoints().keep});
    written_ = step_;
  }

  // Goes on from a checkpoint, if that is wanted and there is one. The steps done.
  std::int64_t resume(Trainer& trainer) {
    if (!checkpoints().resume || io::list_checkpoints(checkpoints().folder).empty()) return 0;
    const io::FoundCheckpoint found = io::read_latest_checkpoint(checkpoints().folder);
    check_configuration(found.checkpoint, configuration_of(options_));
    restore(state_of(trainer), found.checkpoint);
    step_ = written_ = found.checkpoint.step;
    epochs_ = loader_.position().epoch;
    mean_loss_ = found.checkpoint.value<double>("progress", "mean_loss");
    steps_in_mean_ = found.checkpoint.value<std::int64_t>("progress", "steps_in_mean");
    skipped_before_ = found.checkpoint.value<std::int64_t>("progress", "skipped");
    observer_.on_resume(found.path, step_);
    return step_;
  }

  bool next_batch(data::Batch& batch) {
    const auto start = std::chrono::steady_clock::now();
    const bool found = loader_.next(batch);
    const std::chrono::duration<double, std::milli> waited =
        std::chrono::steady_clock::now() - start;
    wait_ms_ = waited.count();
    return found;
  }

  void run_step(Trainer& trainer, const data::Batch& batch) {
    if (statistics_.steps() == 0) observer_.on_first_batch(batch, *data_.train);
    StepEvent event{
        .step = step_ + 1, .epoch = epochs_, .lr = schedule_.at(step_), .wait_ms = wait_ms_};
    waited_ms_ += wait_ms_;
    trainer.optimizer.set_lr(event.lr);
    event.report = trainer.step(batch.images, batch.labels);
    statistics_.add(event.report);
    ++step_;
    ++steps_in_mean_;
    mean_loss_ += (event.report.loss - mean_loss_) / static_cast<double>(steps_in_mean_);
    observer_.on_step(event);
    stop_ = options_.should_stop && options_.should_stop();
  }

  const RunOptions& options_;
  const DataPair& data_;
  RunObserver& observer_;
  data::DataLoader loader_;
  std::int64_t total_steps_;
  Schedule schedule_;
  Statistics statistics_;
  std::int64_t step_ = 0;            // done
  std::int64_t epochs_ = 0;          // begun
  std::int64_t written_ = -1;        // the step of the last checkpoint
  std::int64_t skipped_before_ = 0;  // before the checkpoint that the run goes on from
  double mean_loss_ = 0;             // of this epoch
  std::int64_t steps_in_mean_ = 0;
  bool stop_ = false;
  double wait_ms_ = 0;    // for the current batch
  double waited_ms_ = 0;  // for all so far
};

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
  auto net = models::create(
      options.model,
      {.in_channels = image_shape[0], .num_classes = classes, .image_size = image_shape[1]});
  if (!options.weights.empty()) net->load_state(io::read_safetensors(options.weights).tensors);
  return net;
}

RunResult run(const RunOptions& options, const DataPair& data, RunObserver& observer,
              std::unique_ptr<nn::Module>* trained) {
  check_options(options);
  Trainer trainer(options, data.train->image_shape(), data.train->num_classes());
  RunResult result = Loop(options, data, observer).run(trainer);
  if (trained != nullptr) *trained = std::move(trainer.net);
  return result;
}

RunResult bench(const RunOptions& options, std::int64_t warmup, std::int64_t steps,
                RunObserver& observer) {
  check_options(options);
  check_arg(warmup >= 0 && steps >= 1, "bench",
            "--warmup must not be negative and --steps at "
            "least 1: ",
            warmup, " and ", steps);
  const models::ModelConfig usual = models::usual_config(options.model);
  const std::int64_t size = options.image_size > 0 ? options.image_size : usual.image_size;
  const Shape image{usual.in_channels, size, size};
  Trainer trainer(options, image, usual.num_classes);
  const Tensor images =
      to_format(randn({options.batch_size, image[0], image[1], image[2]}), Format::kChannelsLast);
  const Tensor labels = empty({options.batch_size}, DType::kI64);
  auto* label = labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < options.batch_size; ++i) label[i] = i % usual.num_classes;
  cpu_allocator().reset_peak();
  observer.on_start(warmup + steps);
  Statistics statistics;
  for (std::int64_t i = 0; i < warmup + steps; ++i) {
    const amp::TrainStepResult report = trainer.step(images, labels);
    if (i >= warmup) statistics.add(report);
    observer.on_step({.step = i + 1, .epoch = 1, .lr = options.lr, .report = report});
  }
  RunResult result;
  statistics.write(result, options.batch_size);
  result.peak_bytes = cpu_allocator().stats().peak_bytes;
  return result;
}

Evaluation evaluate(nn::Module& net, const data::Dataset& dataset, std::int64_t batch_size,
                    const amp::Policy& policy, std::int64_t workers) {
  const nn::Inference inference(net);
  data::DataLoader loader(dataset,
                          {.batch_size = batch_size, .shuffle = false, .workers = workers});
  Evaluation result;
  for (data::Batch batch; loader.next(batch);) {
    const Tensor logits = amp::forward(net, batch.images, policy);
    const auto images = static_cast<double>(batch.labels.numel());
    result.loss += cross_entropy(logits, batch.labels).item() * images;
    result.accuracy += static_cast<double>(count_correct(logits, batch.labels));
  }
  result.loss /= static_cast<double>(dataset.size());
  result.accuracy /= static_cast<double>(dataset.size());
  return result;
}

}  // namespace mezzo::train
