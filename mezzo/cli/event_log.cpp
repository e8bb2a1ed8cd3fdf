#include "mezzo/cli/event_log.h"

#include "mezzo/cli/first_pictures.h"
#include "mezzo/cli/histogram_events.h"
#include "mezzo/io/png.h"

namespace mezzo::cli {

void EventLog::on_resume(const std::string& path, std::int64_t step) {
  step_ = step;
  // Events that an earlier part of the run wrote after the checkpoint are repeated.
  options_.resume_step = step + 1;
  next_.on_resume(path, step);
}

void EventLog::open() {
  if (folder_.empty() || writer_ != nullptr) return;
  writer_ = std::make_unique<io::EventWriter>(folder_, options_);
}

void EventLog::on_first_batch(const data::Batch& batch, const data::Dataset& dataset) {
  constexpr std::int64_t kColumns = 8;
  open();
  if (writer_ != nullptr) {
    const std::vector<data::Image> pictures = first_pictures(batch, dataset);
    const data::Image sheet = data::contact_sheet(pictures, kColumns);
    writer_->add_image("train/first_batch", io::encode_png(sheet.pixels, sheet.shape), step_ + 1);
  }
  next_.on_first_batch(batch, dataset);
}

void EventLog::on_step(const train::StepEvent& event) {
  step_ = event.step;
  open();
  if (writer_ != nullptr) {
    writer_->add_scalar("train/loss", event.report.loss, step_);
    writer_->add_scalar("train/lr", event.lr, step_);
    writer_->add_scalar("train/scale", event.report.scale, step_);
    writer_->add_scalar("train/skipped", event.report.skipped ? 1 : 0, step_);
    if (event.report.grad_norm.has_value()) {
      writer_->add_scalar("train/grad_norm", *event.report.grad_norm, step_);
    }
  }
  next_.on_step(event);
}

void EventLog::add(const train::Evaluation& test) {
  open();
  if (writer_ == nullptr) return;
  writer_->add_scalar("test/loss", test.loss, step_);
  if (test.has_accuracy()) {
    writer_->add_scalar("test/accuracy", test.accuracy, step_);
  } else {
    writer_->add_scalar("test/perplexity", test.perplexity(), step_);
  }
}

void EventLog::add(const std::string& tag, const ExponentCounts& counts) {
  const io::Histogram histogram = exponent_buckets(counts);
  // The step is not over yet, so it is the one after the last.
  if (!histogram.limits.empty()) writer_->add_histogram(tag, histogram, step_ + 1);
}

void EventLog::on_counted(const numbers::ActivationStatistics& statistics) {
  open();
  if (writer_ != nullptr) {
    for (const numbers::CallHistogram& call : statistics.latest()) {
      add(tag_of(call.id), call.exponents.counts);
    }
    for (const amp::ExponentHistogram& weight : statistics.latest_weights()) {
      add("weights/" + weight.name, weight.counts);
    }
  }
  next_.on_counted(statistics);
}

void EventLog::on_epoch(const train::EpochEvent& event) {
  add(event.test);
  next_.on_epoch(event);
}

void EventLog::on_evaluation(const train::EvaluationEvent& event) {
  add(event.test);
  next_.on_evaluation(event);
}

}  // namespace mezzo::cli
