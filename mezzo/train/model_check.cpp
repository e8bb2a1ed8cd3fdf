// Model::check_eval(): the least part of an evaluation that shows whether all of it can work.
#include <algorithm>
#include <exception>
#include <utility>

#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/keep_buffers.h"
#include "mezzo/train/fit.h"
#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

// Metrics to try batches with, in place of a model's own.
class TriedMetrics {
 public:
  explicit TriedMetrics(std::span<const std::unique_ptr<Metric>> metrics) {
    for (const std::unique_ptr<Metric>& metric : metrics) {
      fresh_.push_back(metric->fresh());
      all_.push_back(fresh_.back() != nullptr ? fresh_.back().get() : metric.get());
      all_.back()->reset();
    }
  }
  ~TriedMetrics() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (fresh_[i] == nullptr) all_[i]->reset();
    }
  }
  TriedMetrics(const TriedMetrics&) = delete;
  TriedMetrics& operator=(const TriedMetrics&) = delete;

  std::span<Metric* const> all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Metric>> fresh_;  // null for metrics that are tried themselves
  std::vector<Metric*> all_;
};

bool all_have_counted(std::span<Metric* const> metrics) {
  return std::ranges::all_of(metrics, &Metric::has_counted);
}

// Throws what an evaluation of all batches would throw if nothing in them counts.
void check_counted(std::span<Metric* const> metrics) {
  try {
    for (const Metric* metric : metrics) {
      if (!metric->has_counted()) metric->value();
    }
  } catch (const Error&) {
    rethrow_with(". This is the whole validation, which is checked before the first step");
  }
}

}  // namespace

Batch step_batch_of(const data::Batch& batch) {
  check_arg(batch.images.defined(), "Model",
            "a batch has no images. Give the source the network's inputs");
  Batch result{.inputs = {batch.images}};
  result.inputs.insert(result.inputs.end(), batch.more.begin(), batch.more.end());
  if (batch.labels.defined()) result.labels.push_back(batch.labels);
  result.labels.insert(result.labels.end(), batch.more_labels.begin(), batch.more_labels.end());
  return result;
}

void Model::try_batches(data::BatchSource& loader, std::span<Metric* const> metrics) {
  const nn::KeepBuffers buffers(net());
  const nn::Inference inference(net());
  const data::KeepPosition place(loader);
  std::int64_t steps = loader.steps_per_epoch();
  const auto try_step = [&](std::int64_t step, const std::string& which) {
    try {
      data::Batch batch;
      const data::LoaderPosition wanted{.epoch = 0, .step = step};
      if (loader.position() != wanted) loader.seek(wanted);
      loader.next(batch);
      evaluate_batch(batch, metrics);
    } catch (const Error&) {
      rethrow_with(concat(". This is the ", which,
                          " batch of the validation, which is checked before the first step"));
    }
  };
  if (steps > 0) try_step(0, "first");
  if (steps > 1 && loader.last_batch_size() < loader.order().batch_size) {
    try_step(--steps, "last");
  }
  // Nothing may count in a batch, so further ones are tried.
  for (std::int64_t step = 1; step < steps && !all_have_counted(metrics); ++step) {
    try_step(step, concat(step + 1, "."));
  }
}

void Model::check_eval(data::BatchSource& loader) {
  const KeepRandomPosition random;
  const TriedMetrics metrics(metrics_);
  distributed::ProcessGroup* const processes = step_.options().processes;
  const data::Shard shard = loader.order().shard;
  const bool has_part = processes != nullptr && shard.count > 1;
  std::exception_ptr failure;
  try {
    // If processes evaluate together, those without a batch add nothing to the others' sums.
    check_arg(loader.steps_per_epoch() > 0 || has_part, "Model",
              "the validation has no batch for shard ", shard.index, " of ", shard.count,
              ". Use fewer shards, or smaller batches");
    try_batches(loader, metrics.all());
    if (!has_part) check_counted(metrics.all());
  } catch (...) {
    if (processes == nullptr) throw;
    failure = std::current_exception();
  }
  if (processes == nullptr) return;
  distributed::fail_together(*processes, "Model", failure);
  if (!has_part) return;
  for (Metric* metric : metrics.all()) metric->add_up(*processes);
  check_counted(metrics.all());
}

}  // namespace mezzo::train
