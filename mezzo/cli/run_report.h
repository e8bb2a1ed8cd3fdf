// --report: collects what a run's page shows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "mezzo/cli/options.h"
#include "mezzo/report/page.h"
#include "mezzo/report/refresh_pace.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// A page's title: `lenet5 O2/bf16 on digits`, `... on mnist:…/fashion-mnist`. Only the end of a
// long path is shown, since the whole path is in the configuration.
std::string report_title(const std::string& name, const std::string& data);

// The page of a command with one or several runs; does nothing without --report.
class RunReport {
 public:
  // Throws FileError if the page could not be written, so that it fails before the training.
  RunReport(std::string title, const std::string& path, std::size_t total_runs = 1);

  // Begins a run with its configuration and the precision plan of its network on that data.
  void begin(const std::string& name, const train::RunOptions& options,
             const train::DataPair& data);
  // Writes the page of runs that have ended. Throws FileError.
  void write();
  // Writes the page of the run that goes on if report::RefreshPace says that it is time; `complete`
  // first adds to the run what only a page needs. A failure is a warning, the first time.
  template <class Complete>
  void refresh(const Complete& complete) {
    if (!is_wanted() || !pace_.is_due(report::RefreshPace::Clock::now())) return;
    refresh_now([&] { complete(run()); });
  }
  // After a failure of a run: the page says that it has ended, if there is a page of its middle.
  void end_in_spite();

  bool is_wanted() const { return !path_.empty(); }
  report::RunData& run() { return report_.runs.back(); }
  const Device& device() const { return device_; }  // that the run computes on

 private:
  void refresh_now(const std::function<void()>& complete);

  std::string path_;
  report::Report report_;
  Device device_{};
  report::RefreshPace pace_{report::RefreshPace::Clock::now()};
  bool has_page_ = false;  // one was written while a run went on
  bool has_warned_ = false;
};

// Records the events of the run that was begun last, and passes them on.
class ReportObserver final : public train::RunObserver {
 public:
  ReportObserver(RunReport& report, train::RunObserver& next) : report_(report), next_(next) {}
  void on_start(std::int64_t total_steps) override;
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_first_batch(const data::Batch& batch, const data::Dataset& dataset) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;
  void on_evaluation(const train::EvaluationEvent& event) override;
  void on_rate(const train::RateEvent& event) override;
  void on_early_stop(const train::EarlyStop& event) override;
  void on_widened(const train::WidenEvent& event) override;
  void on_first_overflow(const numbers::OverflowFinding& finding) override;
  void on_counting(const amp::GradientStatistics& statistics) override;
  void on_counted(const numbers::ActivationStatistics& statistics) override;
  void on_activations(const numbers::ActivationStatistics& statistics) override;
  void on_dump(const train::DumpEvent& event) override { next_.on_dump(event); }
  void on_gradients(const amp::GradientStatistics& statistics) override;

 private:
  void add(std::int64_t step, const train::Evaluation& test);
  void note_memory();
  void refresh();

  RunReport& report_;
  train::RunObserver& next_;
  std::int64_t step_ = 0;  // the last one
  std::int64_t peak_bytes_ = 0;
  const amp::GradientStatistics* statistics_ = nullptr;  // while the run goes on
};

}  // namespace mezzo::cli
