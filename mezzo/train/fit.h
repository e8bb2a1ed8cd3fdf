// What one call of Model::fit() works on, and the parts that it consists of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/distributed/process_group.h"
#include "mezzo/train/model.h"

namespace mezzo::train {

// Batch norms that would have one value per channel in some batch, of which no variance can be
// taken.
struct SingleValues {
  std::string batch;   // which it is
  std::string advice;  // what to do
  std::vector<const nn::Module*> norms{};
};

struct Fit {
  // Throws ArgumentError for options that no training can have.
  Fit(Model& model, data::BatchSource& loader, const FitOptions& options);

  distributed::ProcessGroup* processes() const { return model.train_step().options().processes; }
  // After the last batch of an epoch whose end is still to come; a checkpoint may be of there.
  bool is_at_end() const { return loader.position().step == state.steps_per_epoch; }
  bool has_work() const { return state.step < state.total_steps || is_at_end(); }
  void each(void (Callback::*hook)(FitState&)) {
    for (Callback* callback : options.callbacks) (callback->*hook)(state);
  }

  Model& model;
  data::BatchSource& loader;
  const FitOptions& options;
  FitState state;
  std::int64_t epochs_done = 0;  // to their end
  // Found before the training has begun, when callbacks may still set norms to eval().
  std::vector<SingleValues> single_values{};
  bool norms_are_checked = false;
};

// fit_loop.cpp: trains, from where the loader stands or the checkpoint says, to the end.
FitResult run_fit(Fit& fit, std::int64_t epochs);

// fit_checkpoint.cpp: everything that is needed to go on from here.
io::Checkpoint capture_fit(const Fit& fit);
// Goes on from a checkpoint. False if that is not wanted, or there is none. What this throws leaves
// everything as it was.
bool resume_fit(Fit& fit);

// model_check.cpp: throws ArgumentError for a batch that holds other than what the network reads
// and what the loss compares its output to: the rest would be left unused without a word.
void check_batch(const data::Batch& batch);

// fit_check.cpp: throws what would come up at the end of the first epoch, if not later, and changes
// nothing. Behind resume_fit(), when it is known how long the training is.
void check_fit(Fit& fit);
// After on_train_begin(): what callbacks find now.
void check_begun(Fit& fit);
// At the begin of the first epoch, when it is known which norms are trained: throws for those of
// fit.single_values.
void check_norms(Fit& fit);

// fit_together.cpp: throws, in all processes that train together, what would end with processes
// that wait for each other, or that all do the same.
void check_together(const Fit& fit);

// While it exists, each process takes random numbers of a stream of its own: dropout that leaves
// out the same in all of them would be one example's worth of it. Process 0, which writes
// checkpoints, stays with the stream of one that trains alone.
class OwnRandomStream {
 public:
  explicit OwnRandomStream(const distributed::ProcessGroup* processes);
  ~OwnRandomStream();
  OwnRandomStream(const OwnRandomStream&) = delete;
  OwnRandomStream& operator=(const OwnRandomStream&) = delete;

 private:
  std::uint64_t distance_;  // of its seed from that of the one that trains alone
};

}  // namespace mezzo::train
