// ModelCheckpoint: checkpoints while Model::fit() trains.
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
  std::int64_t keep = 3;          // the newest so many stay; 0: all
  // A metric of the validation, or empty. The checkpoint of the epoch that was best by it (the
  // first such one, never with a NaN) is kept besides, alone in `FOLDER/best`.
  std::string best{};
  // Before the names of checkpoints, `FOLDER/PREFIX-000007-step-450`: those of several networks in
  // one folder. FitOptions::resume is `FOLDER/PREFIX` then, and the best one is
  // `FOLDER/best/PREFIX`. Empty, or at most 64 letters, digits, `_`, `-` and `.`.
  std::string prefix{};
};

// Writes checkpoints of all that fit() needs to go on, also of the other callbacks, and one more
// when the training ends. FitOptions::resume takes the same folder:
//
//   train::ModelCheckpoint checkpoints({.folder = "run", .every_epochs = 5, .best = "accuracy"});
//   model.fit(90, loader, {.callbacks = {&checkpoints}, .validation = &test, .resume = "run"});
class ModelCheckpoint final : public Callback {
 public:
  // Throws ArgumentError without a folder, for negative numbers and for other prefixes.
  explicit ModelCheckpoint(CheckpointConfig config);

  // Throws ArgumentError if there is no such metric, or no validation, and if a training that does
  // not go on from the folder finds another one's checkpoints there. Throws FileError if the folder
  // cannot be written to. It is not made yet.
  void check(FitState& state) override;
  // Makes it.
  void on_train_begin(FitState& state) override;
  // Throws ArgumentError if a callback saves what no checkpoint can hold.
  void after_train_begin(FitState& state) override;
  // These four throw FileError, see io::write_checkpoint().
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
  void write_last(FitState& state);  // unless it is written
  void write_best(FitState& state);
  void recall_best();
  std::string best_folder() const;
  std::string series(const std::string& folder) const;  // those of the prefix
  // The best so far that a checkpoint remembers, by the metric of the options.
  std::optional<double> best_in(const io::Checkpoint& checkpoint) const;

  CheckpointConfig config_;
  std::optional<std::int64_t> written_{};  // the step of the last one; none before a training
  std::string best_name_{};  // what the metric calls itself, once a training has begun
  std::optional<double> best_{};
};

}  // namespace mezzo::train
