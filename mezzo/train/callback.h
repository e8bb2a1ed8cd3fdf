// Callbacks: hooks around the steps and epochs of Model::fit().
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

#include "mezzo/amp/train_step.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/io/checkpoint.h"

namespace mezzo::train {

class Model;

// The current state of fit().
struct FitState {
  Model& model;
  std::int64_t epoch = 0;          // from 1
  std::int64_t step = 0;           // from 1, over all epochs
  std::int64_t step_in_epoch = 0;  // from 1
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  std::int64_t skipped_steps = 0;  // so far
  double lr = 0;                   // for this step
  double wait_ms = 0;              // waiting time for this step's batch
  // This step's batch, on the loader's device; set in on_step_begin() and on_step_end().
  const data::Batch* batch = nullptr;
  amp::TrainStepResult result{};  // of this step; from on_step_end() on
  // Results of the last evaluation, by metric; empty before the first.
  std::map<std::string, double> metrics{};
  bool has_validation = false;
  bool has_rates = false;          // FitOptions::lr sets the rate of every step
  bool step_is_evaluated = false;  // in after_step(): an evaluation has followed the step
  bool epoch_is_complete = false;  // in on_epoch_end(): not cut short by FitOptions::steps
  // The checkpoint from which the training resumes; empty if it starts anew. On a resume the counts
  // above and the metrics are those of the whole training.
  std::string resumed_from{};
  // Captures everything needed to resume from here. May be called in after_step(), after_epoch(),
  // on_evaluation_failed(), on_batch_failed() and on_train_end(). If processes share the optimizer,
  // all of them must call it together, for it gathers the parts; then not in on_batch_failed(), nor
  // in on_evaluation_failed() unless all have failed (ProcessGroup::all_have_failed()).
  std::function<io::Checkpoint()> capture{};
  // The weights that are evaluated, by the names of the network's state(), if a callback replaces
  // the network's own for evaluations; otherwise null.
  std::function<std::vector<NamedTensor>()> evaluated_weights{};
  // A callback sets this to end the training after this step. An epoch that is stopped at its
  // beginning or in its middle does not end: it has no evaluation and no on_epoch_end().
  bool stop = false;
};

// All hooks are optional.
class Callback {
 public:
  Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  virtual ~Callback() = default;

  // Called before the first hook of any callback. When a training resumes from a checkpoint, it is
  // called after the checkpoint is loaded. Throws what would otherwise fail after hours, such as an
  // unknown metric or a folder that is not writable. It must change nothing, since the training may
  // still be refused for another reason. If processes train together, all of them then fail; this
  // hook must not communicate.
  virtual void check(FitState&) {}
  virtual void on_train_begin(FitState&) {}
  // Called after on_train_begin() of all callbacks, when each has created its state, and before the
  // first step. Throws what only then can be known, for example that a checkpoint cannot hold what
  // a callback saves. If processes train together, all of them then fail; this hook must not
  // communicate.
  virtual void after_train_begin(FitState&) {}
  virtual void on_epoch_begin(FitState&) {}
  virtual void on_step_begin(FitState&) {}
  virtual void on_step_end(FitState&) {}
  // Called after an evaluation within an epoch, which follows a step
  // (FitOptions::validation_every).
  virtual void on_step_evaluated(FitState&) {}
  // Called before and after each evaluation, even if it throws: changes made for the
  // evaluation must be undone at its end. The ends are called in reverse order of the callbacks.
  virtual void on_evaluation_begin(FitState&) {}
  virtual void on_evaluation_end(FitState&) {}
  // Called after the epoch's evaluation, if there is one.
  virtual void on_epoch_end(FitState&) {}
  // Called instead if the evaluation threw, which then ends fit(). A checkpoint may be written
  // here; a training that resumes from it starts with the evaluation.
  virtual void on_evaluation_failed(FitState&) {}
  // Called if the next batch could not be made, for example for an unreadable image, which then
  // ends fit(). A checkpoint may be written here; a training that resumes from it starts with that
  // batch. If processes train together, it is called in those whose own batch failed.
  virtual void on_batch_failed(FitState&) {}
  virtual void on_train_end(FitState&) {}

  // Called after on_step_end() and on_epoch_end() of all callbacks, when each has recorded the step
  // or epoch. Checkpoints are written here.
  virtual void after_step(FitState&) {}
  virtual void after_epoch(FitState&) {}
  // Called after on_train_end() of all callbacks, when the last checkpoint is written. Only here
  // may a callback change what was trained.
  virtual void after_train(FitState&) {}

  // Adds the callback's state to a checkpoint, in its own section of `values`: section(name). It is
  // also called before load(), in case the load has to be undone. There it may throw, for example
  // because on_train_begin() creates the state; then nothing is restored.
  virtual void save(io::Checkpoint&) const {}
  // Restores the callback's state, before anything else of the checkpoint is restored. If it
  // throws, everything stays as it was. If something later throws, each callback loads what it
  // saved just before. The section is missing if the callback was not there when the checkpoint was
  // written.
  virtual void load(const io::Checkpoint&) {}

 protected:
  // The section's name: `name`, for the second callback of its class in FitOptions::callbacks
  // `name.2`, and so on.
  std::string section(std::string_view name) const;

 private:
  friend void number_by_class(std::span<Callback* const> callbacks);

  std::int64_t number_ = 1;
};

// Numbers the callbacks of each class from 1. fit() does that before anything else.
void number_by_class(std::span<Callback* const> callbacks);

// Prints the loss every `per_print_times` steps: `epoch: 1 step: 100, loss is 0.5714`.
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
  std::int64_t steps_before_ = 0;  // of this epoch, before the checkpoint
};

// Records the time of every step in milliseconds, without the time that it waits for data. Prints
// every `per_print_times`-th one: `epoch: 1 step: 100, step time: 17.102 ms`.
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

// Ends a diverged training. A step has diverged if its loss is not finite or exceeds the lowest
// loss so far by more than (factor - 1) times its magnitude: for positive losses, above `factor`
// times the lowest. The training ends after `patience` such steps in a row.
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

// Makes callbacks from functions: each hook calls the function under its name, if there is one.
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
    Function on_step_evaluated{};
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
  void on_step_evaluated(FitState& state) override { call(functions_.on_step_evaluated, state); }
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
