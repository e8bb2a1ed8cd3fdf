// --report: gathers what a run does for its page.
#pragma once

#include <string>

#include "mezzo/cli/options.h"
#include "mezzo/report/page.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// `lenet5 O2/bf16 on digits`, `... on mnist:…/fashion-mnist`: what a page is called. Of a long path
// it has the end, for the whole stands in the configuration.
std::string report_title(const std::string& name, const std::string& data);

// The page of a command with one run or several; does nothing without --report.
class RunReport {
 public:
  // Throws FileError if the page could not be written: better before the training than after.
  RunReport(std::string title, const std::string& path);

  // Begins a run: its configuration, and the precision plan of its network on that data.
  void begin(const std::string& name, const train::RunOptions& options,
             const train::DataPair& data);
  // Writes the page. Throws FileError.
  void write() const;

  bool is_wanted() const { return !path_.empty(); }
  report::RunData& run() { return report_.runs.back(); }

 private:
  std::string path_;
  report::Report report_;
};

// Notes the events of the run that was begun last, and passes them on.
class ReportObserver final : public train::RunObserver {
 public:
  ReportObserver(RunReport& report, train::RunObserver& next) : report_(report), next_(next) {}
  void on_start(std::int64_t total_steps) override;
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_first_batch(const data::Batch& batch, const data::Dataset& dataset) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;
  void on_rate(const train::RateEvent& event) override;
  void on_early_stop(const train::EarlyStop& event) override;
  void on_gradients(const amp::GradientStatistics& statistics) override;

 private:
  RunReport& report_;
  train::RunObserver& next_;
};

}  // namespace mezzo::cli
