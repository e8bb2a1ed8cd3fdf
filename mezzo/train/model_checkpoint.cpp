#include "mezzo/train/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/io/atomic_file.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/train/model.h"

namespace mezzo::train {
namespace {

constexpr const char* kOp = "ModelCheckpoint";
constexpr const char* kBest = "best";

// If processes train together, only the first writes, since all have the same parameters.
bool writes(FitState& state) {
  const distributed::ProcessGroup* processes = state.model.train_step().options().processes;
  return processes == nullptr || processes->rank() == 0;
}

// What this process writes, if it is the one that does. Parts of a sharded optimizer come from all
// processes.
std::optional<io::Checkpoint> captured(FitState& state) {
  const bool is_shared = state.model.optimizer().is_sharded();
  if (!is_shared && !writes(state)) return std::nullopt;
  io::Checkpoint checkpoint = state.capture();
  if (!writes(state)) return std::nullopt;
  return checkpoint;
}

// Whether the state can be captured where this process may be the only one that has failed.
bool is_captured_alone(FitState& state) { return !state.model.optimizer().is_sharded(); }

}  // namespace

ModelCheckpoint::ModelCheckpoint(CheckpointConfig config) : config_(std::move(config)) {
  check_arg(!config_.folder.empty(), kOp, "has no folder. Give one");
  check_arg(config_.every_steps >= 0 && config_.every_epochs >= 1 && config_.keep >= 0, kOp,
            "every_steps and keep must not be negative and every_epochs at least 1: ",
            config_.every_steps, ", ", config_.keep, " and ", config_.every_epochs);
  check_arg(io::is_checkpoint_prefix(config_.prefix) && config_.prefix != kBest, kOp,
            "the prefix `", config_.prefix,
            "` is not at most 64 letters, digits, '_', '-' and '.', or is the folder of the best "
            "one. Choose another");
}

void ModelCheckpoint::check(FitState& state) {
  if (!config_.best.empty()) {
    check_arg(state.has_validation, kOp, "there is no best `", config_.best,
              "` without a validation. Give FitOptions one");
    state.model.metric(config_.best);
  }
  if (!writes(state)) return;
  const bool goes_on = !state.resumed_from.empty() || written_.has_value();
  if (!goes_on) check_unused();
  // A finished training has nothing to write.
  if (state.step < state.total_steps) check_writable();
}

void ModelCheckpoint::on_train_begin(FitState& state) {
  if (state.step < state.total_steps && writes(state)) io::make_folders(config_.folder, kOp);
  written_ = state.resumed_from.empty() ? -1 : state.step;
  if (config_.best.empty()) return;
  best_name_ = state.model.metric(config_.best).name();
  if (!state.resumed_from.empty()) recall_best();
}

// Checked now, since the first checkpoint may be hours away. Earlier, callbacks may have nothing to
// save yet.
void ModelCheckpoint::after_train_begin(FitState& state) {
  if (state.step >= state.total_steps) return;
  const std::optional<io::Checkpoint> checkpoint = captured(state);
  if (checkpoint.has_value()) io::check_checkpoint(*checkpoint);
}

void ModelCheckpoint::after_step(FitState& state) {
  if (state.step_is_evaluated && !config_.best.empty()) write_best(state);
  if (config_.every_steps > 0 && state.step % config_.every_steps == 0) write(state);
}

void ModelCheckpoint::after_epoch(FitState& state) {
  // The best one first, so that the following checkpoint remembers it.
  if (!config_.best.empty()) write_best(state);
  if (config_.every_steps == 0 && state.epoch_is_complete &&
      state.epoch % config_.every_epochs == 0) {
    write(state);
  }
}

// The epoch's steps are done, and may have taken a day.
void ModelCheckpoint::on_evaluation_failed(FitState& state) {
  const distributed::ProcessGroup* processes = state.model.train_step().options().processes;
  const bool have_all_failed = processes != nullptr && processes->all_have_failed();
  if (have_all_failed || is_captured_alone(state)) write_last(state);
}

// Before the first step there is nothing to save.
void ModelCheckpoint::on_batch_failed(FitState& state) {
  if (state.step > 0 && is_captured_alone(state)) write_last(state);
}

void ModelCheckpoint::on_train_end(FitState& state) { write_last(state); }

void ModelCheckpoint::write_last(FitState& state) {
  if (state.step != written_) write(state);
}

// Existing checkpoints would be removed, the best one at once: most likely those of a run that
// should be resumed.
void ModelCheckpoint::check_unused() const {
  for (const std::string& folder : {config_.folder, best_folder()}) {
    check_arg(io::list_checkpoints(series(folder)).empty(), kOp, series(folder),
              " holds checkpoints of another run. Resume it, or choose another folder");
  }
}

void ModelCheckpoint::check_writable() const {
  io::check_folder_writable(config_.folder, kOp);
  if (!config_.best.empty()) io::check_folder_writable(best_folder(), kOp);
}

void ModelCheckpoint::write(FitState& state) {
  if (const std::optional<io::Checkpoint> checkpoint = captured(state)) {
    io::write_checkpoint(config_.folder, *checkpoint,
                         {.keep = config_.keep, .prefix = config_.prefix});
  }
  written_ = state.step;
}

void ModelCheckpoint::write_best(FitState& state) {
  const double value = state.metrics.at(best_name_);
  const bool low = state.model.metric(best_name_).prefers_low();
  const bool is_best =
      !std::isnan(value) && (!best_.has_value() || (low ? value < *best_ : value > *best_));
  if (!is_best) return;
  best_ = value;
  std::optional<io::Checkpoint> checkpoint = captured(state);
  if (!checkpoint.has_value()) return;
  checkpoint->score = value;
  io::write_checkpoint(best_folder(), *checkpoint, {.keep = 1, .prefix = config_.prefix});
}

std::string ModelCheckpoint::series(const std::string& folder) const {
  return io::checkpoint_series(folder, config_.prefix);
}

std::string ModelCheckpoint::best_folder() const { return config_.folder + "/best"; }

// Finds a best checkpoint that an earlier part of the training left there but does not remember.
void ModelCheckpoint::recall_best() {
  const std::vector<io::CheckpointInfo> kept = io::list_checkpoints(series(best_folder()));
  const auto sound = std::ranges::find(kept, "", &io::CheckpointInfo::problem);
  if (sound == kept.end()) return;
  const auto value = best_in(io::parse_manifest_of(sound->path).checkpoint);
  if (value.has_value()) best_ = value;
}

// Under the metric's proper name, once it is known, whichever alias was requested.
void ModelCheckpoint::save(io::Checkpoint& checkpoint) const {
  if (!best_.has_value()) return;
  checkpoint.values[kBest][best_name_.empty() ? config_.best : best_name_] = *best_;
}

void ModelCheckpoint::load(const io::Checkpoint& checkpoint) { best_ = best_in(checkpoint); }

std::optional<double> ModelCheckpoint::best_in(const io::Checkpoint& checkpoint) const {
  const auto section = checkpoint.values.find(kBest);
  if (section == checkpoint.values.end()) return std::nullopt;
  for (const std::string& name : {config_.best, metric_name(config_.best)}) {
    if (section->second.contains(name)) return checkpoint.value<double>(kBest, name);
  }
  return std::nullopt;
}

}  // namespace mezzo::train
