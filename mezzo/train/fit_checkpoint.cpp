// The checkpoint of a call of fit(), and how it is restored.
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/train/checkpointing.h"
#include "mezzo/train/fit.h"

namespace mezzo::train {
namespace {

constexpr const char* kProgress = "progress";
constexpr const char* kMetrics = "metrics";

std::map<std::string, double> metrics_in(const io::Checkpoint& checkpoint) {
  std::map<std::string, double> metrics;
  const auto section = checkpoint.values.find(kMetrics);
  if (section == checkpoint.values.end()) return metrics;
  for (const auto& [name, value] : section->second) {
    metrics[name] = checkpoint.value<double>(kMetrics, name);
  }
  return metrics;
}

// Empty for a callback that has nothing to save before on_train_begin().
std::optional<io::Checkpoint> saved_by(const Callback& callback) {
  try {
    io::Checkpoint own;
    callback.save(own);
    return own;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// A callback that refuses what it has saved must not hide the original error, nor keep others from
// restoring theirs.
void take_back(Callback& callback, const std::optional<io::Checkpoint>& before) {
  try {
    if (before.has_value()) callback.load(*before);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

// If this throws, everything stays as it was.
void restore_all(Fit& fit, const io::Checkpoint& checkpoint) {
  std::vector<std::optional<io::Checkpoint>>
      before;  // what each callback remembers, of those that have begun
  try {
    for (Callback* callback : fit.options.callbacks) {
      before.push_back(saved_by(*callback));
      callback->load(checkpoint);
    }
    restore({fit.model.train_step(), fit.loader}, checkpoint);
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      take_back(*fit.options.callbacks[i], before[i]);
    }
    throw;
  }
}

}  // namespace

io::Checkpoint capture_fit(const Fit& fit) {
  const FitState& state = fit.state;
  io::Checkpoint checkpoint = capture({fit.model.train_step(), fit.loader}, state.step);
  checkpoint.values[kProgress] = {{"epochs", fit.epochs_done}, {"skipped", state.skipped_steps}};
  io::CheckpointValues& metrics = checkpoint.values[kMetrics];
  for (const auto& [name, value] : state.metrics) metrics[name] = value;
  for (const Callback* callback : fit.options.callbacks) callback->save(checkpoint);
  return checkpoint;
}

bool resume_fit(Fit& fit) {
  const std::string& folder = fit.options.resume;
  if (folder.empty() || io::list_checkpoints(folder).empty()) return false;
  const io::FoundCheckpoint found = io::read_latest_checkpoint(folder);
  const io::Checkpoint& checkpoint = found.checkpoint;
  const auto epochs = checkpoint.value<std::int64_t>(kProgress, "epochs");
  const auto skipped = checkpoint.value<std::int64_t>(kProgress, "skipped");
  std::map<std::string, double> metrics = metrics_in(checkpoint);
  restore_all(fit, checkpoint);
  fit.state.resumed_from = found.path;
  fit.state.step = checkpoint.step;
  fit.state.epoch = fit.epochs_done = epochs;
  fit.state.skipped_steps = skipped;
  fit.state.metrics = std::move(metrics);
  return true;
}

}  // namespace mezzo::train
