// Model: a network with its loss, optimizer and metrics, and the loop that trains it.
//
//   optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
//   train::Model model(net, nn::CrossEntropyLoss(), optimizer,
//                      {.metrics = {"accuracy"}, .amp = {.level = "O2"}});
//   train::LossMonitor monitor(100);
//   model.fit(10, loader, {.callbacks = {&monitor}});
//   const double accuracy = model.eval(test_loader).at("accuracy");
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/schedule.h"

namespace mezzo::train {

struct ModelOptions {
  // Names for make_metric(). Labels that the loss ignores do not count for accuracies.
  std::vector<std::string> metrics{"loss", "accuracy"};
  amp::TrainNetworkOptions amp{};  // level, dtype, loss scaling
  bool graph = false;              // capture the training step and replay it: graph::captured()
};

struct FitOptions {
  std::vector<Callback*> callbacks{};  // called in this order; they must outlive fit()
  // The learning rate of each step, skipped ones included, for all parameter groups; the last one
  // continues. Empty: the optimizer's own, which may be an array with one for each update.
  std::vector<double> lr{};
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();  // ends the training early
  data::BatchSource* validation = nullptr;                        // evaluated after each epoch
  // Also evaluate it after every so many steps, counted over all epochs, unless the epoch or the
  // training ends there; see Callback::on_step_evaluated(). 0: never. Metrics of epochs are those
  // of their ends.
  std::int64_t validation_every = 0;
  // A folder of checkpoints that a ModelCheckpoint wrote. The training resumes from the newest
  // sound one, bit for bit, or starts anew if there is none. Epochs and steps are then those of the
  // whole training. The program must create the same network, optimizer, loader and callbacks. The
  // checkpoint holds the position in the learning rates, but not the rates.
  std::string resume{};
};

// Counts are of the whole training, including the part before a checkpoint.
struct FitResult {
  std::int64_t epochs = 0;  // begun
  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;
  bool stopped = false;                     // by a callback
  std::map<std::string, double> metrics{};  // of the last evaluation
};

class Model {
 public:
  // Network and optimizer must outlive the model, which sets the network's precision as
  // build_train_network() does: at O0, the default, it stays as it is. Throws ArgumentError for
  // unknown metrics and levels.
  Model(nn::Module& net, amp::LossFunction loss, optim::Optimizer& optimizer,
        const ModelOptions& options = {});
  // For a loss that is a function of a batch. Metrics that read an output get Batch::output, if the
  // loss sets it; for a loss that does not, name only `loss`.
  Model(nn::Module& net, const amp::LossOfBatch& loss, optim::Optimizer& optimizer,
        const ModelOptions& options = {});
  // Wraps a step that was made by hand, for a network whose precision is already set. eval()
  // reports `eval_loss`.
  Model(amp::TrainStep step, amp::LossFunction eval_loss,
        const std::vector<std::string>& metrics = {"loss", "accuracy"});
  Model(amp::TrainStep step, const amp::LossOfBatch& eval_loss,
        const std::vector<std::string>& metrics = {"loss", "accuracy"});

  // Trains for that many epochs from the loader's position on; an epoch that has already begun is
  // finished first and counts. If the network is in inference mode, it is put into training mode,
  // except for frozen batch norms (freeze.h). Otherwise each layer keeps its mode.
  //
  // Problems that would end the training at the end of an epoch are searched for before the first
  // step, which changes nothing. They are: a last batch of the loader that is too small for the
  // micro-batches or for batch norm, what check_eval() throws for the validation, and what
  // callbacks find in check(). The forward passes of these trials run in inference mode and leave
  // buffers as they were. What callbacks may still change, such as which norms are trained and what
  // checkpoints hold, is checked after they have begun.
  //
  // Processes that train together (TrainStepOptions::processes) must all call it. Each takes its
  // shard of the batches and its own random numbers; process 0 writes the checkpoints, and a
  // callback that stops one process stops all. Throws ArgumentError unless epochs and steps are at
  // least 1, for negative learning rates, if the optimizer holds none of the network's parameters,
  // and what restore() throws.
  FitResult fit(std::int64_t epochs, data::BatchSource& loader, const FitOptions& options = {});
  // The metrics over one epoch of the loader, from its beginning, by name. Processes that train
  // together must all call it. They use process 0's running statistics, and each evaluates its
  // shard if the loader has more than one.
  std::map<std::string, double> eval(data::BatchSource& loader);
  // Throws what eval() would throw later, as far as the loader's first batch and a smaller last one
  // show it, and says whether the network, the loss or which metric is at fault. As long as nothing
  // counts for a metric, it continues with the other batches, to the end if necessary. Changes
  // nothing, neither the network's buffers, the loader's position, random numbers nor metrics
  // (Metric::fresh()). Processes that train together must all call it, and all fail.
  void check_eval(data::BatchSource& loader);
  // The network's f32 output, in inference mode and without recording. Must not be called while
  // another thread uses the network, even for predict(): all threads share the mode, and the call
  // that ends first would restore it while the other still runs.
  Tensor predict(const Tensor& input);
  // The results of a network with several inputs or results.
  nn::Tensors predict(const nn::Tensors& inputs);

  // Adds a user's metric. Throws ArgumentError if the name is taken.
  void add_metric(std::unique_ptr<Metric> metric);
  // The metric of that name, or of the name that make_metric() maps it to: `acc` is `accuracy`.
  // Throws ArgumentError if there is none.
  const Metric& metric(const std::string& name) const;

  nn::Module& net() { return step_.net(); }
  optim::Optimizer& optimizer() { return step_.optimizer(); }
  amp::TrainStep& train_step() { return step_; }

 private:
  void add_metrics(const std::vector<std::string>& names);
  void try_batches(data::BatchSource& loader, std::span<Metric* const> metrics);
  void evaluate_batch(const data::Batch& batch, std::span<Metric* const> metrics);

  amp::TrainStep step_;
  amp::LossOfBatch loss_;  // of evaluations
  std::vector<std::unique_ptr<Metric>> metrics_;
};

}  // namespace mezzo::train
