// Writes the TensorBoard event files of a run.
#pragma once

#include <memory>
#include <string>

#include "mezzo/io/tensorboard.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// Writes scalars: `train/loss`, `train/lr`, `train/scale` and `train/skipped` for every step,
// `test/loss` and `test/accuracy` for every epoch. Writes `train/first_batch` as an image, and for
// every step in which they were counted the exponents of activations and weights as histograms
// `activations/PATH/OPERATION` and `weights/NAME`. Passes all events on; without a folder it does
// nothing else.
class EventLog final : public train::RunObserver {
 public:
  EventLog(std::string folder, train::RunObserver& next)
      : folder_(std::move(folder)), next_(next) {}
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_start(std::int64_t total_steps) override { next_.on_start(total_steps); }
  // This one, or the first step of a run without pictures, creates the file, so that a refused run
  // leaves none. Throws FileError if the folder is not writable.
  void on_first_batch(const data::Batch& batch, const data::Dataset& dataset) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;
  void on_evaluation(const train::EvaluationEvent& event) override;
  void on_rate(const train::RateEvent& event) override { next_.on_rate(event); }
  void on_early_stop(const train::EarlyStop& event) override { next_.on_early_stop(event); }
  void on_widened(const train::WidenEvent& event) override { next_.on_widened(event); }
  void on_first_overflow(const numbers::OverflowFinding& finding) override {
    next_.on_first_overflow(finding);
  }
  void on_counted(const numbers::ActivationStatistics& statistics) override;
  void on_activations(const numbers::ActivationStatistics& statistics) override {
    next_.on_activations(statistics);
  }
  void on_dump(const train::DumpEvent& event) override { next_.on_dump(event); }
  void on_gradients(const amp::GradientStatistics& statistics) override {
    next_.on_gradients(statistics);
  }

 private:
  void open();
  void add(const train::Evaluation& test);
  void add(const std::string& tag, const ExponentCounts& counts);

  std::string folder_;
  train::RunObserver& next_;
  io::EventWriterOptions options_{};
  std::unique_ptr<io::EventWriter> writer_;
  std::int64_t step_ = 0;
};

}  // namespace mezzo::cli
