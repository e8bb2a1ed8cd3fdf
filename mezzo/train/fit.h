// The state of one call of Model::fit(), and the functions that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/distributed/process_group.h"
#include "mezzo/train/model.h"

namespace mezzo::train {

// Batch norms that would see a single value per channel in some batch, of which no variance can be
// computed.
struct SingleValues {
  std::string batch;   // which it is
  std::string advice;  // what to do
  std::vector<const nn::Module*> norms{};
};

struct Fit {
  // Throws ArgumentError for invalid options.
  Fit(Model& model, data::BatchSource& loader, const FitOptions& options);

  distributed::ProcessGroup* processes() const { return model.train_step().options().processes; }
  // True after the last batch of an epoch that has not ended yet. A checkpoint may be taken there.
  bool is_at_end() const { return loader.position().step == state.steps_per_epoch; }
  bool has_work() const { return state.step < state.total_steps || is_at_end(); }
  void each(void (Callback::*hook)(FitState&)) {
    for (Callback* callback : options.callbacks) (callback->*hook)(state);
  }

  Model& model;
  data::BatchSource& loader;
  const FitOptions& options;
  FitState state;
  std::int64_t epochs_done = 0;  // completed epochs
  // Found before the training begins, when callbacks may still set norms to eval().
  std::vector<SingleValues> single_values{};
  bool norms_are_checked = false;
};

// fit_loop.cpp: trains to the end, from the position of the loader or of the checkpoint.
FitResult run_fit(Fit& fit, std::int64_t epochs);

// fit_checkpoint.cpp: captures everything needed to resume from here.
io::Checkpoint capture_fit(const Fit& fit);
// Resumes from a checkpoint. Returns false if that is not requested or there is none. If it throws,
// everything stays as it was.
bool resume_fit(Fit& fit);

// model_check.cpp: a loader's batch as network and loss take it: images and further tensors are
// inputs, labels and further labels are labels. Throws ArgumentError if there are no images.
Batch step_batch_of(const data::Batch& batch);

// fit_check.cpp: throws what would otherwise fail at the end of the first epoch or later, and
// changes nothing. Called after resume_fit(), when the length of the training is known.
void check_fit(Fit& fit);
// Called after on_train_begin(): checks the state that callbacks see then.
void check_begun(Fit& fit);
// Called at the beginning of the first epoch, when it is known which norms are trained: throws for
// those of fit.single_values.
void check_norms(Fit& fit);

// fit_together.cpp: throws, in all processes that train together, for settings that would make
// processes wait for each other forever or all do the same work.
void check_together(const Fit& fit);

// While it exists, each process draws random numbers from its own stream. If dropout left out the
// same elements in all of them, that would amount to one example's worth of randomness. Process 0,
// which writes checkpoints, keeps the stream of a single process.
class OwnRandomStream {
 public:
  explicit OwnRandomStream(const distributed::ProcessGroup* processes);
  ~OwnRandomStream();
  OwnRandomStream(const OwnRandomStream&) = delete;
  OwnRandomStream& operator=(const OwnRandomStream&) = delete;

 private:
  std::uint64_t distance_;  // between its seed and that of a single process
};

}  // namespace mezzo::train
