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

#include "mezzo/amp/train_one_step.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/schedule.h"

namespace mezzo::train {

struct ModelOptions {
  // Names for make_metric(). Labels that the loss says it ignores do not count for accuracies.
  std::vector<std::string> metrics{"loss", "accuracy"};
  amp::TrainNetworkOptions amp{};  // level, dtype, loss scaling
  bool graph = false;              // capture the training step and replay it: graph::captured()
};

struct FitOptions {
  std::vector<Callback*> callbacks{};  // called in this order; they must outlive fit()
  // The learning rate of each step, skipped ones included, for all groups of parameters; the last
  // one goes on. Empty: the optimizer's own, which may be an array of one for each update.
  std::vector<double> lr{};
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();  // ends the training early
  data::BatchSource* validation = nullptr;                        // evaluated after each epoch
  // A folder of checkpoints that a ModelCheckpoint wrote: the training goes on from the newest
  // sound one, bit for bit, or begins if there is none. Epochs and steps are then those of the
  // whole training. The program makes the same network, optimizer, loader and callbacks; learning
  // rates are not in the checkpoint, only the place in them.
  std::string resume{};
};

// Of the whole training, also of its part before a checkpoint.
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
  // Of a step that was made by hand, for a network whose precision is set. eval() reports that
  // loss.
  Model(amp::TrainOneStepWithLossScale step, amp::LossFunction eval_loss,
        const std::vector<std::string>& metrics = {"loss", "accuracy"});

  // Trains for that many epochs from the loader's position on; an epoch that it is in the middle of
  // is finished first and counts. If the network is in inference mode, it is put into training
  // mode, all of it but batch norms that are frozen (freeze.h); else each of its layers stays in
  // the mode that it is in.
  //
  // What would end the training at the end of an epoch is looked for before the first step, and
  // changes nothing: a last batch of the loader that is too small for the micro-batches or for
  // batch norm, what check_eval() throws for the validation, and what callbacks find in check().
  // Forward passes of these trials are in inference mode, and leave buffers as they were. What
  // callbacks may still change, which norms are trained and what checkpoints hold, is looked at
  // when they have begun. Processes that
  // train together (TrainStepOptions::processes) all call it: each takes its shard of the batches
  // and random numbers of its own, process 0 writes the checkpoints, and a callback that stops one
  // stops all. Throws ArgumentError unless epochs and steps are at least 1, for negative learning
  // rates, if the optimizer holds none of the network's parameters, and what restore() throws.
  FitResult fit(std::int64_t epochs, data::BatchSource& loader, const FitOptions& options = {});
  // The metrics over one epoch of the loader, from its beginning, by name. Processes that train
  // together all call it, get what process 0 has as running statistics, and evaluate each its
  // shard, if the loader has more than one.
  std::map<std::string, double> eval(data::BatchSource& loader);
  // Throws what eval() would come to throw, as far as the loader's first batch and a smaller last
  // one show, and says which it is: of the network, the loss and each metric. As long as nothing
  // counts for a metric it goes on with the other batches, to the end if need be. Changes nothing,
  // the network's buffers, the loader's position, random numbers and metrics (Metric::fresh())
  // included. Processes that train together all call it, and all fail.
  void check_eval(data::BatchSource& loader);
  // The network's f32 output, in inference mode and without recording. Not to be called while
  // another thread uses the network, be it for predict() too: the mode is one for all threads, and
  // the call that ends first would put it back under the other.
  Tensor predict(const Tensor& input);

  // Adds a metric of the user's own. Throws ArgumentError if the name is taken.
  void add_metric(std::unique_ptr<Metric> metric);
  // The one of that name, or that make_metric() makes for it: `acc` is `accuracy`. Throws
  // ArgumentError if there is none.
  const Metric& metric(const std::string& name) const;

  nn::Module& net() { return step_.net(); }
  optim::Optimizer& optimizer() { return step_.optimizer(); }
  amp::TrainOneStepWithLossScale& train_step() { return step_; }

 private:
  void try_batches(data::BatchSource& loader, std::span<Metric* const> metrics);
  void evaluate_batch(const data::Batch& batch, std::span<Metric* const> metrics);

  amp::LossFunction loss_;
  amp::TrainOneStepWithLossScale step_;
  std::vector<std::unique_ptr<Metric>> metrics_;
};

}  // namespace mezzo::train
