// How far a run has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// Shows steps on a terminal as a bar, elsewhere as a line per epoch, and writes events.
class Progress final : public train::RunObserver {
 public:
  Progress(JsonLines& json, std::string label, bool quiet);
  ~Progress() override;
  void on_start(std::int64_t total_steps) override;
  void on_resume(const std::string& path, std::int64_t step) override;
  void on_step(const train::StepEvent& event) override;
  void on_epoch(const train::EpochEvent& event) override;
  void on_rate(const train::RateEvent& event) override;
  void on_early_stop(const train::EarlyStop& event) override;

  // train::run() with an observer that tells this one. What comes behind the first step is on the
  // way.
  train::RunResult run(const train::RunOptions& options, const train::DataPair& data,
                       train::RunObserver& observer,
                       std::unique_ptr<nn::Module>* trained = nullptr);

 private:
  void draw(const train::StepEvent& event);
  std::string scaling() const;
  void clear_line();

  JsonLines& json_;
  std::string label_;
  bool quiet_;
  bool is_terminal_;
  bool line_open_ = false;
  bool has_begun_ = false;   // a step is done
  bool is_average_ = false;  // what is tested
  std::int64_t total_steps_ = 0;
  std::int64_t first_step_ = 0;  // that an earlier part of the run came to
  bool is_scaled_ = false;       // the loss, by another number than 1 in some step
  double scale_ = 1;             // of the latest step
  std::int64_t skipped_ = 0;     // steps of the epoch so far
  std::chrono::steady_clock::time_point start_{};
  std::chrono::steady_clock::time_point last_draw_{};
};

// `stopped early after epoch 9: loss was best in epoch 4 (0.3125)`
std::string early_stop_text(const train::EarlyStop& stop);
// `, 1 step skipped`; nothing of none.
std::string skipped_text(std::int64_t steps);
// `[======            ] 10/30`
std::string bar(std::int64_t done, std::int64_t total);
// In the place of the line before it on the terminal of standard error, cut to its width: of a line
// that goes on in a second one, the next would leave the first.
void draw_line(const std::string& text);
constexpr std::chrono::milliseconds kRedraw{100};  // between two states of a bar

}  // namespace mezzo::cli
