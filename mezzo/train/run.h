// A training run from options to result, as the `mezzo` command and the experiments use it.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/activation_statistics.h"
#include "mezzo/numbers/first_overflow.h"
#include "mezzo/train/checkpointing.h"
#include "mezzo/train/data_pair.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

class Profile;

struct StepEvent {
  std::int64_t step = 0;   // from 1, over all epochs
  std::int64_t epoch = 0;  // from 1
  double lr = 0;
  double wait_ms = 0;  // waiting time for the step's batch
  amp::TrainStepResult report{};
};

// A step was written.
struct DumpEvent {
  std::int64_t step = 0;
  std::string folder{};
  std::int64_t bytes = 0;  // of its tensors
};

struct Evaluation {
  double loss = 0;  // mean over the images, or over the tokens
  // The share of the images whose largest logit is that of their label; NaN for a language model,
  // which is not measured by it.
  double accuracy = 0;

  bool has_accuracy() const { return !std::isnan(accuracy); }
  // Of a language model: among how many tokens, all equally likely, it would be as uncertain.
  double perplexity() const { return std::exp(loss); }
};

struct EpochEvent {
  std::int64_t epoch = 0;
  double train_loss = 0;  // mean over the epoch's steps
  Evaluation test{};
  double seconds = 0;
  double tokens_per_s = 0;  // in the steps of this epoch, waiting included; 0 for images
};

// An evaluation within an epoch; see WatchOptions::eval_every.
struct EvaluationEvent {
  std::int64_t step = 0;  // from 1, over all epochs: the one that it followed
  std::int64_t epoch = 0;
  double train_loss = 0;  // mean over the steps of the epoch so far
  Evaluation test{};
};

// A plateau has lowered the learning rate after an epoch.
struct RateEvent {
  std::int64_t epoch = 0;
  double from = 0;
  double to = 0;
};

// The reason why a run ended early.
struct EarlyStop {
  std::int64_t epoch = 0;       // the last one
  std::string monitor{};        // the metric that stopped improving
  double best = 0;              // NaN if there was none
  std::int64_t best_epoch = 0;  // 0 if there was none
};

struct RunResult {
  Evaluation test{};
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t skipped_steps = 0;
  // Peak memory of tensors during training; for bench() on a GPU, after the warm-up.
  std::int64_t peak_bytes = 0;
  // What this process sends to others in a step; by bench() only.
  std::int64_t sent_bytes = 0;
  double total_ms = 0;  // over all steps
  double step_ms_median = 0;
  double step_ms_min = 0;
  double step_ms_max = 0;
  double forward_ms_median = 0;
  double backward_ms_median = 0;
  double update_ms_median = 0;
  double images_per_s = 0;  // images, or sequences, of a step, over all processes, per median step
  double tokens_per_s = 0;  // likewise; 0 for images
  double wait_ms_mean = 0;  // for a step's batch; the other times here exclude it
  bool stopped = false;     // by should_stop, before all steps were done
  std::optional<EarlyStop> early_stop{};
};

// An operation of the plan has left the range of its dtype, and is computed in f32 from now on.
struct WidenEvent {
  std::int64_t step = 0;  // the one that it follows
  std::string module{};
  std::string op{};
  DType from = DType::kF16;
  std::string reason{};

  std::string text() const;  // one line
};

// Receives every event as it happens; the default implementations ignore them.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Before the first step, with the number of steps that the run will have done.
  virtual void on_start(std::int64_t /*total_steps*/) {}
  // Before on_start(), if the run resumes: from which checkpoint, and after how many steps.
  virtual void on_resume(const std::string& /*path*/, std::int64_t /*step*/) {}
  // Before on_start(), if gradients will be counted: the counts of the run, which may be read in
  // every later event until on_gradients().
  virtual void on_counting(const amp::GradientStatistics& /*statistics*/) {}
  // Before the first step of this call, unless it reads tokens: its batch, on the host, and the set
  // that it comes from.
  virtual void on_first_batch(const data::Batch& /*batch*/, const data::Dataset& /*dataset*/) {}
  virtual void on_step(const StepEvent& /*event*/) {}
  virtual void on_epoch(const EpochEvent& /*event*/) {}
  // After the step that an evaluation within an epoch follows.
  virtual void on_evaluation(const EvaluationEvent& /*event*/) {}
  // After on_epoch(), if a plateau has lowered the learning rate.
  virtual void on_rate(const RateEvent& /*event*/) {}
  // After on_epoch() and on_rate(), if the metric ends the run with this epoch.
  virtual void on_early_stop(const EarlyStop& /*event*/) {}
  // Before on_step() of a skipped step, if RunOptions::check_first_overflow.
  virtual void on_first_overflow(const numbers::OverflowFinding& /*finding*/) {}
  // Before on_step() of a step in which activations and weights were counted.
  virtual void on_counted(const numbers::ActivationStatistics& /*statistics*/) {}
  // After the last step, if activations and weights were counted.
  virtual void on_activations(const numbers::ActivationStatistics& /*statistics*/) {}
  // After on_step(), for every operation that the watch of a plan has widened: RunOptions::plan.
  virtual void on_widened(const WidenEvent& /*event*/) {}
  // Before on_step() of the step that RunOptions::dump names.
  virtual void on_dump(const DumpEvent& /*event*/) {}
  // After the last step, if gradients were counted.
  virtual void on_gradients(const amp::GradientStatistics& /*statistics*/) {}
};

// Creates the model, trains it and evaluates it after each epoch. The model is initialised from the
// seed, or from the weights of fine_tuning, which a resumed run does not read. Times and peak
// memory are those of this call; steps and skipped steps are those of the whole run, including the
// part before a checkpoint. The same options give the same result, bit for bit, on the same machine
// with the same number of threads.
//
// Unless `trained` is null, it receives the trained network, with averaged weights if there are
// any, even if something fails after the last step, such as the evaluation or the last checkpoint.
// Throws ArgumentError or FileError for invalid options, before the first step.
RunResult run(const RunOptions& options, const DataPair& data, RunObserver& observer,
              std::unique_ptr<nn::Module>* trained = nullptr);

struct BenchOptions {
  std::int64_t warmup = 3;  // steps that are not timed
  std::int64_t steps = 10;
  Profile* profile = nullptr;  // receives the work of kernels in the timed steps
};

// Times training steps on generated input.
RunResult bench(const RunOptions& options, const BenchOptions& bench, RunObserver& observer);

struct EvaluateOptions {
  std::int64_t batch_size = 64;
  amp::Policy policy{amp::Level::kO0};
  LossOptions loss{};  // only the class weights are used, and these not for tokens
  std::int64_t workers = data::default_workers();
  // Receives the f32 logits of each batch, in the order of the data: [n, classes], or [n, tokens,
  // vocabulary].
  std::function<void(const Tensor& logits)> on_logits{};
};

// Mean loss and accuracy of a network on a data set, computed with the policy in inference mode.
Evaluation evaluate(nn::Module& net, const data::Dataset& dataset, const EvaluateOptions& options);
// The mean loss of a language model on sequences of that length, which follow one another. Throws
// what TokenBatches throws.
Evaluation evaluate(nn::Module& net, const data::TokenSet& tokens, std::int64_t length,
                    const EvaluateOptions& options);

// Applies a run's precision options, or its plan, to a network and returns its policy. Warns once
// of operations that the options name but the network does not call. `example`: the shape of what
// the network reads, as in ExampleKind. Throws ArgumentError, and changes nothing, if the plan is
// for another network.
amp::Policy apply_precision(nn::Module& net, const RunOptions& options, const Shape& example);

// The network that the options name, for examples of that shape, with its initial weights loaded
// and its frozen parts frozen.
std::unique_ptr<nn::Module> make_model(const RunOptions& options, const Shape& example,
                                       std::int64_t classes);

}  // namespace mezzo::train
