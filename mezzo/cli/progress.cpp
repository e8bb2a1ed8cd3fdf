#include "mezzo/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "mezzo/cli/events.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/histogram_events.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"

namespace mezzo::cli {
namespace {

std::string format_seconds(double seconds) {
  const long whole = std::lround(seconds);
  return whole < 60 ? fmt::format("{}s", whole) : fmt::format("{}m{:02}s", whole / 60, whole % 60);
}

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsual;
}

}  // namespace

Progress::Progress(JsonLines& json, std::string label, bool quiet)
    : json_(json),
      label_(std::move(label)),
      quiet_(quiet),
      is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear_line(); }

train::RunResult Progress::run(const train::RunOptions& options, const train::DataPair& data,
                               train::RunObserver& observer, std::unique_ptr<nn::Module>* trained) {
  is_average_ = options.watch.ema.has_value();
  if (data.has_tokens()) {
    tokens_per_step_ = options.tokens * options.batch_size * options.process_count();
  }
  try {
    return with_advice_on_images(options,
                                 [&] { return train::run(options, data, observer, trained); });
  } catch (const FileError& error) {
    if (!has_begun_) throw;
    throw Error(error.what());
  }
}

void Progress::on_start(std::int64_t total_steps) {
  total_steps_ = total_steps;
  start_ = std::chrono::steady_clock::now();
}

void Progress::on_resume(const std::string& path, std::int64_t step) {
  first_step_ = step;
  json_.begin({{"event", "resume"}, {"checkpoint", path}, {"step", step}});
  if (!quiet_) write_error("{}  continues from {}, after step {}\n", label_, path, step);
}

void Progress::on_step(const train::StepEvent& event) {
  has_begun_ = true;
  const amp::TrainStepResult& report = event.report;
  scale_ = report.scale;
  is_scaled_ = is_scaled_ || scale_ != 1;
  skipped_ += report.skipped ? 1 : 0;
  Json line{{"event", "step"},
            {"step", event.step},
            {"epoch", event.epoch},
            {"loss", report.loss},
            {"lr", event.lr},
            {"scale", report.scale},
            {"found_inf", report.overflow || report.nonfinite_loss},
            {"skipped", report.skipped},
            {"first_bad", report.first_bad},
            {"ms", report.total_ms()},
            {"wait_ms", event.wait_ms}};
  if (report.grad_norm.has_value()) line["grad_norm"] = *report.grad_norm;
  json_.write(line);
  if (!quiet_ && is_terminal_) draw(event);
}

void Progress::on_epoch(const train::EpochEvent& event) {
  Json line{{"event", "epoch"},
            {"epoch", event.epoch},
            {"train_loss", event.train_loss},
            {"loss", event.test.loss}};
  line.update(quality_fields(event.test));
  line["seconds"] = event.seconds;
  const bool has_tokens = event.tokens_per_s > 0;
  if (has_tokens) line["tokens_per_second"] = event.tokens_per_s;
  json_.write(line);
  if (!quiet_) {
    clear_line();
    write_error("{}  epoch {}: {}{}{}, {}\n", label_, event.epoch,
                losses_text(event.train_loss, event.test),
                has_tokens ? ", " + rate_text(0, event.tokens_per_s) : "", scaling(),
                format_seconds(event.seconds));
  }
  skipped_ = 0;
}

void Progress::on_evaluation(const train::EvaluationEvent& event) {
  Json line{{"event", "evaluation"},
            {"step", event.step},
            {"epoch", event.epoch},
            {"train_loss", event.train_loss},
            {"loss", event.test.loss}};
  line.update(quality_fields(event.test));
  json_.write(line);
  if (quiet_) return;
  clear_line();
  write_error("{}  step {}: {}\n", label_, event.step, losses_text(event.train_loss, event.test));
}

// `train loss 0.1234, test loss 0.2345, accuracy 97.00 %`, and whose weights were tested.
std::string Progress::losses_text(double train_loss, const train::Evaluation& test) const {
  const std::string quality =
      test.has_accuracy() ? fmt::format("accuracy {:.2f} %", 100 * test.accuracy)
                          : fmt::format("perplexity {:.2f}", without_sign(test.perplexity()));
  return fmt::format("train loss {:.4f}, test loss {:.4f}, {}{}", without_sign(train_loss),
                     without_sign(test.loss), quality, is_average_ ? " of averaged weights" : "");
}

void Progress::on_rate(const train::RateEvent& event) {
  json_.write(
      {{"event", "lr_reduced"}, {"epoch", event.epoch}, {"from", event.from}, {"to", event.to}});
  if (quiet_) return;
  clear_line();
  write_error("{}  epoch {}: learning rate reduced from {} to {}\n", label_, event.epoch,
              event.from, event.to);
}

void Progress::on_early_stop(const train::EarlyStop& event) {
  json_.write({{"event", "early_stop"},
               {"epoch", event.epoch},
               {"monitor", event.monitor},
               {"best", event.best},
               {"best_epoch", event.best_epoch}});
}

void Progress::on_widened(const train::WidenEvent& event) {
  json_.write({{"event", "plan_widened"},
               {"step", event.step},
               {"module", event.module},
               {"op", event.op},
               {"dtype", name_of(event.from)},
               {"to", name_of(DType::kF32)},
               {"reason", event.reason}});
  if (quiet_) return;
  clear_line();
  write_error("{}  step {}: {}\n", label_, event.step, event.text());
}

// Printed even with --quiet: it is what --check asks for.
void Progress::on_first_overflow(const numbers::OverflowFinding& finding) {
  json_.write({{"event", "first_overflow"},
               {"step", finding.step},
               {"path", finding.call.path},
               {"op", finding.call.op},
               {"backward_of", finding.call.gradient_of},
               {"call", finding.index + 1},
               {"calls", finding.calls},
               {"what", finding.cause.what},
               {"advice", finding.cause.advice}});
  clear_line();
  write_out("{}\n", finding.text());
}

void Progress::on_activations(const numbers::ActivationStatistics& statistics) {
  write_histograms(json_, statistics);
}

void Progress::on_gradients(const amp::GradientStatistics& statistics) {
  write_histograms(json_, statistics);
}

void Progress::on_dump(const train::DumpEvent& event) {
  json_.write(
      {{"event", "dump"}, {"step", event.step}, {"folder", event.folder}, {"bytes", event.bytes}});
  clear_line();
  write_out("step {} is in {}: {}\n", event.step, event.folder, format_bytes(event.bytes));
}

// Empty for a run without a loss scale, which skips a step only if the loss is not finite.
std::string Progress::scaling() const {
  // The scale is an f32 value, printed with as few digits as identify it.
  const auto scale = static_cast<float>(scale_);
  return (is_scaled_ ? fmt::format(", scale {}", scale) : "") + skipped_text(skipped_);
}

void Progress::draw(const train::StepEvent& event) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_draw_ < kRedraw && event.step < total_steps_) return;
  last_draw_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  // Only counts the steps of this part of a resumed run.
  const auto steps_done = static_cast<double>(event.step - first_step_);
  const auto steps_left = static_cast<double>(total_steps_ - event.step);
  const double tokens = steps_done * static_cast<double>(tokens_per_step_);
  draw_line(fmt::format("{}  {}  loss {:.4f}  {:.1f} ms/step  {}{} left", label_,
                        bar(event.step, total_steps_), without_sign(event.report.loss),
                        event.report.total_ms(),
                        tokens > 0 ? rate_text(0, tokens / elapsed) + "  " : "",
                        format_seconds(elapsed / steps_done * steps_left)));
  line_open_ = true;
}

void Progress::clear_line() {
  if (line_open_) write_error("\r\033[K");
  line_open_ = false;
}

std::string early_stop_text(const train::EarlyStop& stop) {
  const std::string was =
      stop.best_epoch > 0 ? fmt::format("was best in epoch {} ({:.4f})", stop.best_epoch, stop.best)
                          : "was not a number in any epoch";
  return fmt::format("stopped early after epoch {}: {} {}", stop.epoch, stop.monitor, was);
}

std::string skipped_text(std::int64_t steps) {
  return steps > 0 ? fmt::format(", {} step{} skipped", steps, steps == 1 ? "" : "s") : "";
}

void draw_line(const std::string& text) {
  // In the last column, a cursor may already be on the next line.
  write_error("\r\033[K{}", text.substr(0, terminal_width() - 1));
  std::fflush(stderr);
}

std::string bar(std::int64_t done, std::int64_t total) {
  constexpr std::int64_t kWidth = 24;
  const auto filled = static_cast<std::size_t>(done * kWidth / std::max<std::int64_t>(total, 1));
  return fmt::format("[{:<{}}] {}/{}", std::string(filled, '='), kWidth, done, total);
}

}  // namespace mezzo::cli
