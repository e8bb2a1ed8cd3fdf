// Callbacks: what happens around the steps and epochs of Model::fit().
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/amp/train_one_step.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/io/checkpoint.h"

namespace mezzo::train {

class Model;

// Where fit() is.
struct FitState {
  Model& model;
  std::int64_t epoch = 0;          // from 1
  std::int64_t step = 0;           // from 1, over all epochs
  std::int64_t step_in_epoch = 0;  // from 1
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  std::int64_t skipped_steps = 0;  // so far
  double lr = 0;                   // of this step
  double wait_ms = 0;              // before this step, until its batch was there
  // Of this step, in on_step_begin() and on_step_end(); on the loader's device.
  const data::Batch* batch = nullptr;
  amp::TrainStepResult result{};  // of this step; from on_step_end() on
  // Of the last evaluation, by metric; empty before the first.
  std::map<std::string, double> metrics{};
  bool has_validation = false;
  bool has_rates = false;          // FitOptions::lr sets the rate of every step
  bool epoch_is_complete = false;  // in on_epoch_end(): not cut short by FitOptions::steps
  // The checkpoint that the training goes on from; empty if it begins. The counts above and the
  // metrics are then those of the whole training.
  std::string resumed_from{};
  // Everything that is needed to go on from here; for after_step(), after_epoch(),
  // on_evaluation_failed(), on_batch_failed() and on_train_end().
  std::function<io::Checkpoint()> capture{};
  // The weights that evaluations are of, by the names of the network's state(), where a callback
  // has others evaluated than the network's own; else null.
  std::function<std::vector<NamedTensor>()> evaluated_weights{};
  // A callback sets this to end the training after this step. An epoch that is left at its begin or
  // in its middle has no end: no evaluation and no on_epoch_end().
  bool stop = false;
};

// Every hook is optional.
class Callback {
 public:
  Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  virtual ~Callback() = default;

  // Before the first hook of any callback, also in a training that goes on from a checkpoint, which
  // is loaded by then: throws what would otherwise come up after hours, such as a metric that there
  // is not or a folder that cannot be written to. It changes nothing, for the training may still be
  // refused for another reason. Where processes train together all fail then; nothing is exchanged
  // here.
  virtual void check(FitState&) {}
  virtual void on_train_begin(FitState&) {}
  // After on_train_begin() of all callbacks, when each has made its state, and before the first
  // step: throws what only then can be known, such as that what a callback saves is nothing that a
  // checkpoint holds. Where processes train together all fail then; nothing is exchanged here.
  virtual void after_train_begin(FitState&) {}
  virtual void on_epoch_begin(FitState&) {}
  virtual void on_step_begin(FitState&) {}
  virtual void on_step_end(FitState&) {}
  // Before the epoch's evaluation, and after it, also where it throws: what a callback changes for
  // it is to be put back. The ends come in the reverse order of the callbacks.
  virtual void on_evaluation_begin(FitState&) {}
  virtual void on_evaluation_end(FitState&) {}
  // After the epoch's evaluation, if there is one.
  virtual void on_epoch_end(FitState&) {}
  // Instead, if the evaluation threw, which then ends fit(): a moment for a checkpoint, too. A
  // training that goes on from it begins with the evaluation.
  virtual void on_evaluation_failed(FitState&) {}
  // If the next batch could not be made, for an image that cannot be read, say, which then ends
  // fit(): a moment for a checkpoint, too. A training that goes on from it begins with that batch.
  // Of processes that train together, it is called in those whose own batch failed.
  virtual void on_batch_failed(FitState&) {}
  virtual void on_train_end(FitState&) {}

  // After on_step_end() and on_epoch_end() of all callbacks, when each has taken note of the step
  // or epoch: the moments for a checkpoint.
  virtual void after_step(FitState&) {}
  virtual void after_epoch(FitState&) {}
  // After on_train_end() of all callbacks, when the last checkpoint is written: the moment to
  // change what was trained.
  virtual void after_train(FitState&) {}

  // Adds to a checkpoint what the callback remembers from step to step, in a section of its own of
  // `values`: section(name). Called before load(), too, for what may have to be taken back: there
  // it may throw, as where the state is made in on_train_begin(), and then takes nothing back.
  virtual void save(io::Checkpoint&) const {}
  // Takes it back, before anything else of the checkpoint is: what this throws leaves everything as
  // it was. So does what is thrown later: each callback then loads what it saved right before. The
  // section is missing if the callback was not there when the checkpoint was written.
  virtual void load(const io::Checkpoint&) {}

 protected:
  // `name`; for the second callback of its class in FitOptions::callbacks `name.2`, and so on.
  std::string section(std::string_view name) const;

 private:
  friend void number_by_class(std::span<Callback* const> callbacks);

  std::int64_t number_ = 1;
};

// Tells each callback which of its class it is, from 1 on. fit() does that before anything else.
void number_by_class(std::span<Callback* const> callbacks);

// Prints the loss every so many steps: `epoch: 1 step: 100, loss is 0.5714`.
class LossMonitor final : public Callback {
 public:
  // Throws ArgumentError unless per_print_times is at least 1.
  explicit LossMonitor(std::int64_t per_print_times = 1, std::FILE* out = stdout);
  void on_step_end(FitState& state) override;

 private:
  std::int64_t every_;
  std::FILE* out_;
};

// Prints the time of every epoch: `epoch time: 2674.1 ms, per step time: 17.1 ms`.
class TimeMonitor final : public Callback {
 public:
  explicit TimeMonitor(std::FILE* out = stdout) : out_(out) {}
  void on_epoch_begin(FitState& state) override;
  void on_epoch_end(FitState& state) override;

 private:
  std::FILE* out_;
  std::chrono::steady_clock::time_point start_{};
  std::int64_t steps_before_ = 0;  // of this epoch, before a checkpoint
};

// Keeps the time of every step, in milliseconds, waiting for data not counted, and prints every so
// many of them: `epoch: 1 step: 100, step time: 17.102 ms`.
class StepTimer final : public Callback {
 public:
  // 0: prints nothing. Throws ArgumentError for a negative number.
  explicit StepTimer(std::int64_t per_print_times = 0, std::FILE* out = stdout);
  void on_step_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  const std::vector<double>& times_ms() const { return times_; }
  // 0 before the first step.
  double median_ms() const;

 private:
  std::int64_t every_;
  std::FILE* out_;
  std::vector<double> times_;
  std::chrono::steady_clock::time_point start_{};
};

// Ends the training when it has diverged: after `patience` steps in a row whose loss was not
// finite, or was above `factor` times the lowest so far: by (factor - 1) times its size, whatever
// its sign.
class StopOnDivergence final : public Callback {
 public:
  struct Options {
    double factor = std::numeric_limits<double>::infinity();
    std::int64_t patience = 10;
  };
  // Throws ArgumentError unless factor > 1 and patience is at least 1.
  explicit StopOnDivergence(Options options);
  StopOnDivergence() : StopOnDivergence(Options{}) {}
  void on_train_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;
  bool has_stopped() const { return in_a_row_ >= options_.patience; }

 private:
  Options options_;
  double lowest_ = std::numeric_limits<double>::infinity();
  std::int64_t in_a_row_ = 0;
};

// Functions as callbacks: a hook calls what stands under its name, if anything does.
class LambdaCallback final : public Callback {
 public:
  using Function = std::function<void(FitState&)>;
  struct Functions {
    Function check{};
    Function on_train_begin{};
    Function after_train_begin{};
    Function on_epoch_begin{};
    Function on_step_begin{};
    Function on_step_end{};
    Function after_step{};
    Function on_evaluation_begin{};
    Function on_evaluation_end{};
    Function on_epoch_end{};
    Function on_evaluation_failed{};
    Function on_batch_failed{};
    Function after_epoch{};
    Function on_train_end{};
    Function after_train{};
  };
  explicit LambdaCallback(Functions functions) : functions_(std::move(functions)) {}
  void check(FitState& state) override { call(functions_.check, state); }
  void on_train_begin(FitState& state) override { call(functions_.on_train_begin, state); }
  void after_train_begin(FitState& state) override { call(functions_.after_train_begin, state); }
  void on_epoch_begin(FitState& state) override { call(functions_.on_epoch_begin, state); }
  void on_step_begin(FitState& state) override { call(functions_.on_step_begin, state); }
  void on_step_end(FitState& state) override { call(functions_.on_step_end, state); }
  void after_step(FitState& state) override { call(functions_.after_step, state); }
  void on_evaluation_begin(FitState& state) override {
    call(functions_.on_evaluation_begin, state);
  }
  void on_evaluation_end(FitState& state) override { call(functions_.on_evaluation_end, state); }
  void on_epoch_end(FitState& state) override { call(functions_.on_epoch_end, state); }
  void on_evaluation_failed(FitState& state) override {
    call(functions_.on_evaluation_failed, state);
  }
  void on_batch_failed(FitState& state) override { call(functions_.on_batch_failed, state); }
  void after_epoch(FitState& state) override { call(functions_.after_epoch, state); }
  void on_train_end(FitState& state) override { call(functions_.on_train_end, state); }
  void after_train(FitState& state) override { call(functions_.after_train, state); }

 private:
  static void call(const Function& function, FitState& state) {
    if (function) function(state);
  }

  Functions functions_;
};

}  // namespace mezzo::train
