// One training step of a run, to be compared with another run's.
#pragma once

#include <memory>
#include <string>

#include "mezzo/amp/batch.h"
#include "mezzo/numbers/compare.h"
#include "mezzo/train/data_pair.h"
#include "mezzo/train/run_options.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

// The first batch of a run's training, on the host.
Batch first_batch(const RunOptions& options, const DataPair& data);

// A network as a run begins with it, and the first step of its training. The random numbers of the
// step, such as dropout's, depend on the seed alone, so that two runs draw the same.
class OneStep {
 public:
  struct Options {
    RunOptions run{};
    bool is_f64 = false;  // the network in f64, without graph mode and loss scaling
    std::string title{};
  };

  OneStep(Options options, const ExampleKind& example, Batch batch);
  ~OneStep();
  OneStep(const OneStep&) = delete;
  OneStep& operator=(const OneStep&) = delete;

  // Refers to this object.
  numbers::StepRun run();
  // Of the last step that was made, without what observing it took: not known, so with it.
  double ms() const { return ms_; }

 private:
  class Passing;
  void make(amp::StepObserver& observer);

  Options options_;
  Batch batch_;
  std::unique_ptr<Passing> passing_;
  std::unique_ptr<Trainer> trainer_;  // null in f64
  std::unique_ptr<nn::Module> wide_;  // in f64
  double ms_ = 0;
};

// The time that a step in f64 is likely to take, in seconds: its products by plain loops.
double seconds_in_f64(const RunOptions& options, const ExampleKind& example, std::int64_t examples);

}  // namespace mezzo::train
