// ModelCheckpoint: writes checkpoints during Model::fit().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/train/callback.h"

namespace mezzo::train {

// MindSpore's CheckpointConfig.
struct CheckpointConfig {
  std::string folder{};           // where they are written, as io/checkpoint.h says
  std::int64_t every_steps = 0;   // steps between them; 0: by epochs
  std::int64_t every_epochs = 1;  // epochs between them, without every_steps
  std::int64_t keep = 3;          // keep this many of the newest; 0: all
  // A metric of the validation, or empty. The checkpoint of the evaluation that was best by it (the
  // first one if equal, never a NaN), after an epoch or within one, is also kept, alone in
  // `FOLDER/best`.
  std::string best{};
  // Precedes the names of checkpoints, `FOLDER/PREFIX-000007-step-450`, so that several networks
  // can share a folder. FitOptions::resume is then `FOLDER/PREFIX`, and the best one is in
  // `FOLDER/best/PREFIX`. Empty, or at most 64 letters, digits, `_`, `-` and `.`.
  std::string prefix{};
};

// Writes checkpoints of everything that fit() needs to resume, including the other callbacks, and
// one more when the training ends. FitOptions::resume takes the same folder:
//
//   train::ModelCheckpoint checkpoints({.folder = "run", .every_epochs = 5, .best = "accuracy"});
//   model.fit(90, loader, {.callbacks = {&checkpoints}, .validation = &test, .resume = "run"});
class ModelCheckpoint final : public Callback {
 public:
  // Throws ArgumentError without a folder, for negative numbers and for invalid prefixes.
  explicit ModelCheckpoint(CheckpointConfig config);

  // Throws ArgumentError if there is no such metric or no validation, and if a training that does
  // not resume from the folder finds another training's checkpoints there. Throws FileError if the
  // folder is not writable. It does not create the folder yet.
  void check(FitState& state) override;
  // Creates the folder.
  void on_train_begin(FitState& state) override;
  // Throws ArgumentError if a callback saves what a checkpoint cannot hold.
  void after_train_begin(FitState& state) override;
  // The next four throw FileError; see io::write_checkpoint().
  void after_step(FitState& state) override;
  void after_epoch(FitState& state) override;
  void on_evaluation_failed(FitState& state) override;
  void on_batch_failed(FitState& state) override;
  void on_train_end(FitState& state) override;
  void save(io::Checkpoint& checkpoint) const override;
  void load(const io::Checkpoint& checkpoint) override;

  // The metric of the best epoch so far.
  std::optional<double> best() const { return best_; }

 private:
  void check_unused() const;
  void check_writable() const;
  void write(FitState& state);
  void write_last(FitState& state);  // unless it is already written
  void write_best(FitState& state);
  void recall_best();
  std::string best_folder() const;
  std::string series(const std::string& folder) const;  // with the prefix
  // The best value that a checkpoint remembers for the metric of the options.
  std::optional<double> best_in(const io::Checkpoint& checkpoint) const;

  CheckpointConfig config_;
  std::optional<std::int64_t> written_{};  // the step of the last one; unset before a training
  std::string best_name_{};                // the metric's proper name, once a training has begun
  std::optional<double> best_{};
};

}  // namespace mezzo::train
