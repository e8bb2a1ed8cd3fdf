// A training run from options to result: what the `mezzo` command and the experiments do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/train_one_step.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/nn/module.h"
#include "mezzo/train/checkpointing.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

class Profile;

struct StepEvent {
  std::int64_t step = 0;   // from 1, over all epochs
  std::int64_t epoch = 0;  // from 1
  double lr = 0;
  double wait_ms = 0;  // before the step, until its batch was there
  amp::TrainStepResult report{};
};

struct Evaluation {
  double loss = 0;      // mean over the images
  double accuracy = 0;  // part of the images whose largest logit is their label's
};

struct EpochEvent {
  std::int64_t epoch = 0;
  double train_loss = 0;  // mean over the epoch's steps
  Evaluation test{};
  double seconds = 0;
};

// A learning rate that a plateau has lowered, after an epoch.
struct RateEvent {
  std::int64_t epoch = 0;
  double from = 0;
  double to = 0;
};

// Why a run ended early.
struct EarlyStop {
  std::int64_t epoch = 0;       // the last one
  std::string monitor{};        // the metric that has not become better
  double best = 0;              // NaN if there was none
  std::int64_t best_epoch = 0;  // 0 then
};

struct RunResult {
  Evaluation test{};
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t skipped_steps = 0;
  // Of tensors, during training; of bench() on a card, behind the warm-up.
  std::int64_t peak_bytes = 0;
  double total_ms = 0;  // of all steps
  double step_ms_median = 0;
  double step_ms_min = 0;
  double step_ms_max = 0;
  double forward_ms_median = 0;
  double backward_ms_median = 0;
  double update_ms_median = 0;
  double images_per_s = 0;  // images of a step, in all processes, over the median step
  double wait_ms_mean = 0;  // for the batch of a step, which no other time here includes
  bool stopped = false;     // by should_stop, before all steps were done
  std::optional<EarlyStop> early_stop{};
};

// Told of everything as it happens; the default ignores it.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Before the first step; the number of steps that the run will have done.
  virtual void on_start(std::int64_t /*total_steps*/) {}
  // Before that, if the run goes on from a checkpoint: which, and after how many steps.
  virtual void on_resume(const std::string& /*path*/, std::int64_t /*step*/) {}
  // Before the first step that this call does: its batch, on the host, and the set that it is from.
  virtual void on_first_batch(const data::Batch& /*batch*/, const data::Dataset& /*dataset*/) {}
  virtual void on_step(const StepEvent& /*event*/) {}
  virtual void on_epoch(const EpochEvent& /*event*/) {}
  // After on_epoch(), if a plateau has lowered the learning rate.
  virtual void on_rate(const RateEvent& /*event*/) {}
  // After those, if it was the last epoch for its metric's sake.
  virtual void on_early_stop(const EarlyStop& /*event*/) {}
  // After the last step, if gradients were counted.
  virtual void on_gradients(const amp::GradientStatistics& /*statistics*/) {}
};

// Training and test set of one spec, opened once and shared by the runs of a comparison.
struct DataPair {
  std::unique_ptr<data::Dataset> train;
  std::unique_ptr<data::Dataset> test;
};
// Throws what open_dataset() throws, and ArgumentError if their images differ in shape.
DataPair open_data(const std::string& spec, const data::OpenOptions& options = {});
// Those of a run: its data, image size and augmentation.
DataPair open_data(const RunOptions& options);
// As set_class_weights() of the training images; throws ArgumentError, too, if no image of one of
// the two sets would count.
void set_class_weights(LossOptions& loss, const DataPair& data);

// Creates the model (initialised from the seed, or from the weights of fine_tuning, which a run
// that goes on from a checkpoint does not read), trains it and evaluates it after each epoch. Times
// and the peak of memory are those of this call, steps and skipped steps those of the whole run,
// also of its part before a checkpoint. The same options give the same result, bit for bit, on the
// same machine with the same number of threads. The trained network, with
// averaged weights if there are any, is moved to `trained` if that
// is not null, also if something fails after the last step, such as the evaluation or the last
// checkpoint. Throws ArgumentError or FileError for options that cannot work, before the first
// step.
RunResult run(const RunOptions& options, const DataPair& data, RunObserver& observer,
              std::unique_ptr<nn::Module>* trained = nullptr);

struct BenchOptions {
  std::int64_t warmup = 3;  // steps that do not count
  std::int64_t steps = 10;
  Profile* profile = nullptr;  // gets what the kernels did in the steps that count
};

// Times training steps on generated input.
RunResult bench(const RunOptions& options, const BenchOptions& bench, RunObserver& observer);

struct EvaluateOptions {
  std::int64_t batch_size = 64;
  amp::Policy policy{amp::Level::kO0};
  LossOptions loss{};  // of which the weights of classes count
  std::int64_t workers = data::default_workers();
  // Gets the f32 logits [n, classes] of each batch, in the order of the data.
  std::function<void(const Tensor& logits)> on_logits{};
};

// Mean loss and accuracy of a network on a data set, computed under the policy in inference mode.
Evaluation evaluate(nn::Module& net, const data::Dataset& dataset, const EvaluateOptions& options);

// Applies to a network what a run's options say of precision, and returns its policy. Warns, once,
// of operations that they name and that the network does not call.
amp::Policy apply_precision(nn::Module& net, const RunOptions& options, const Shape& image_shape);

// The network that the options name, for images of that shape, with the weights that it begins with
// and what is to be frozen frozen.
std::unique_ptr<nn::Module> make_model(const RunOptions& options, const Shape& image_shape,
                                       std::int64_t classes);

}  // namespace mezzo::train
