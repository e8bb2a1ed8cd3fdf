// Shows the progress of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// Shows steps as a bar on a terminal, or as a line per epoch elsewhere, and writes events.
class Progress final : public train::RunObserver {
 public:
  Progress(JsonLines& json, std::string label, bool quiet);
  ~Progress() override;
  void on_start(std::int64_t total_steps) override;
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;
  void on_evaluation(const train::EvaluationEvent& event) override;
  void on_rate(const train::RateEvent& event) override;
  void on_early_stop(const train::EarlyStop& event) override;
  void on_widened(const train::WidenEvent& event) override;
  void on_first_overflow(const numbers::OverflowFinding& finding) override;
  void on_activations(const numbers::ActivationStatistics& statistics) override;
  void on_gradients(const amp::GradientStatistics& statistics) override;
  void on_dump(const train::DumpEvent& event) override;

  // Calls train::run() with an observer that passes events to this one. Failures after the first
  // step count as failures while running.
  train::RunResult run(const train::RunOptions& options, const train::DataPair& data,
                       train::RunObserver& observer,
                       std::unique_ptr<nn::Module>* trained = nullptr);

 private:
  void draw(const train::StepEvent& event);
  std::string losses_text(double train_loss, const train::Evaluation& test) const;
  std::string scaling() const;
  void clear_line();

  JsonLines& json_;
  std::string label_;
  bool quiet_;
  bool is_terminal_;
  bool line_open_ = false;
  bool has_begun_ = false;            // the first step is done
  bool is_average_ = false;           // whether averaged weights are tested
  std::int64_t tokens_per_step_ = 0;  // 0 for images
  std::int64_t total_steps_ = 0;
  std::int64_t first_step_ = 0;  // steps done by an earlier part of the run
  bool is_scaled_ = false;       // whether the loss had a scale other than 1 in some step
  double scale_ = 1;             // in the latest step
  std::int64_t skipped_ = 0;     // steps of the epoch so far
  std::chrono::steady_clock::time_point start_{};
  std::chrono::steady_clock::time_point last_draw_{};
};

// `stopped early after epoch 9: loss was best in epoch 4 (0.3125)`
std::string early_stop_text(const train::EarlyStop& stop);
// `, 1 step skipped`; empty for 0.
std::string skipped_text(std::int64_t steps);
// `[======            ] 10/30`
std::string bar(std::int64_t done, std::int64_t total);
// Replaces the line before it on standard error's terminal, cut to its width. If a line wrapped,
// the next one would only overwrite its last part.
void draw_line(const std::string& text);
constexpr std::chrono::milliseconds kRedraw{100};  // between two updates of a bar

}  // namespace mezzo::cli
