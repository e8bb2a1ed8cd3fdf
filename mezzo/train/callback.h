// Callbacks: what happens around the steps and epochs of Model::fit().
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "mezzo/amp/train_network.h"

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
  double lr = 0;                  // of this step
  amp::TrainStepResult result{};  // of this step; from on_step_end() on
  // Of the last evaluation, by metric; empty before the first.
  std::map<std::string, double> metrics{};
  bool stop = false;  // a callback sets this to end the training after this step
};

// Every hook is optional.
class Callback {
 public:
  Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  virtual ~Callback() = default;

  virtual void on_train_begin(FitState&) {}
  virtual void on_epoch_begin(FitState&) {}
  virtual void on_step_begin(FitState&) {}
  virtual void on_step_end(FitState&) {}
  // After the epoch's evaluation, if there is one.
  virtual void on_epoch_end(FitState&) {}
  virtual void on_train_end(FitState&) {}
};

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
};

// Keeps the time of every step, in milliseconds, waiting for data not counted.
class StepTimer final : public Callback {
 public:
  void on_step_begin(FitState& state) override;
  void on_step_end(FitState& state) override;
  const std::vector<double>& times_ms() const { return times_; }
  // 0 before the first step.
  double median_ms() const;

 private:
  std::vector<double> times_;
  std::chrono::steady_clock::time_point start_{};
};

// Ends the training when it has diverged: after `patience` steps in a row whose loss was not
// finite, or was above `factor` times the lowest so far.
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
  bool has_stopped() const { return in_a_row_ >= options_.patience; }

 private:
  Options options_;
  double lowest_ = std::numeric_limits<double>::infinity();
  std::int64_t in_a_row_ = 0;
};

// Functions as callbacks.
class LambdaCallback final : public Callback {
 public:
  using Function = std::function<void(FitState&)>;
  struct Functions {
    Function step_begin{};
    Function step_end{};
    Function epoch_begin{};
    Function epoch_end{};
  };
  explicit LambdaCallback(Functions functions) : functions_(std::move(functions)) {}
  void on_step_begin(FitState& state) override { call(functions_.step_begin, state); }
  void on_step_end(FitState& state) override { call(functions_.step_end, state); }
  void on_epoch_begin(FitState& state) override { call(functions_.epoch_begin, state); }
  void on_epoch_end(FitState& state) override { call(functions_.epoch_end, state); }

 private:
  static void call(const Function& function, FitState& state) {
    if (function) function(state);
  }

  Functions functions_;
};

}  // namespace mezzo::train
