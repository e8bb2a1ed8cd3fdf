// The options of a training run, in groups.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/precision_plan.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/readable.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/train/optimizer_table.h"
#include "mezzo/train/schedule.h"

namespace mezzo::train {

// How gradients are scaled. By default, dtypes of a narrow range scale dynamically, others not at
// all.
struct LossScaling {
  enum class Kind : std::uint8_t { kDefault, kNone, kDynamic, kStatic };
  Kind kind = Kind::kDefault;
  double scale = 0;  // for kStatic

  // The effective kind under a policy: resolves kDefault.
  Kind kind_for(const amp::Policy& policy) const;
};

// The scaler for a policy. A static one keeps its scale but still skips steps with non-finite
// gradients.
amp::GradScaler make_scaler(const LossScaling& scaling, const amp::Policy& policy);

struct CheckpointingOptions {
  std::string folder{};                 // empty: no checkpoints
  std::optional<std::int64_t> every{};  // steps; 0 or unset: after each epoch
  std::optional<std::int64_t> keep{};   // keep this many of the newest, 3 if unset; 0: all
  // Also keep the one with the best test accuracy, or of a language model with the least test loss,
  // in `FOLDER/best`.
  bool keep_best = false;
  bool resume = false;  // resume from the newest sound one, if any
};

// The learning rate of the parameters that a pattern names; see nn::parameters_matching().
struct RateOf {
  std::string pattern{};
  double lr = 0;  // relative to OptimizerOptions::lr; a schedule changes it in proportion

  bool operator==(const RateOf&) const = default;
};

// The optimizer and its settings. Settings that a kind does not read are ignored; OptimizerInfo
// says which those are.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.01;
  double momentum = 0.9;
  bool nesterov = false;  // needs a momentum
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  DType state_dtype = DType::kF32;  // f32, bf16 or e4m3: ops/update/narrow_state.h
  bool decay_matrices = false;  // only parameters of two and more axes decay: optim::decay_groups()
  std::vector<RateOf> lr_of{};  // if two name the same parameter, the later one applies
  // The number of parts into which a batch is split and whose gradients are added up: micro_batches
  // of amp::TrainStepOptions.
  std::int64_t accumulate = 1;
  std::optional<double> clip{};  // max_grad_norm of amp::TrainStepOptions
};

// The default settings of a kind: those of its options, which are the field's; but SGD has a
// momentum of 0.9.
OptimizerOptions usual_options(OptimizerKind kind);

// How the learning rate changes during a run; see Schedule.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr_init = 0;     // start of the warm-up
  double lr_end = 0;      // end of linear and half-cosine; see below
  double lr_gamma = 0.9;  // for exponential, per epoch
  double warmup_epochs = 0;
  std::optional<std::int64_t> warmup_steps{};  // instead; not for plateau, which counts epochs
  // For plateau, with lr_end as the lowest rate; see ReduceLROnPlateau. Epochs of the warm-up do
  // not count.
  double lr_factor = 0.1;
  std::int64_t lr_patience = 10;
  std::int64_t lr_cooldown = 0;
};

// Reactions to the validation of a run, and the weights that it uses.
struct WatchOptions {
  // The decay of averaged weights, which are validated and become the result of the training; see
  // ExponentialMovingAverage.
  std::optional<double> ema{};
  bool ema_warmup = false;
  // The number of epochs without improvement after which a run ends; see EarlyStopping.
  std::optional<std::int64_t> early_stop{};
  std::string monitor = "loss";  // of the plateau and of early_stop: `loss` or `accuracy`
  // The number of steps after which the test set is evaluated within an epoch, too: reported, and
  // considered for the best checkpoint, but not by the plateau and by early_stop. 0 or unset: only
  // after each epoch.
  std::optional<std::int64_t> eval_every{};
};

// Options of the cross-entropy loss.
struct LossOptions {
  double label_smoothing = 0;  // not used in evaluation
  // The weight of each class, in training and in evaluation; see set_class_weights().
  std::vector<double> class_weights{};  // one for each class; empty: all 1
  bool balances_classes = false;        // all classes count the same in the training set
};

// The initial weights of a run, and which parts stay fixed.
struct FineTuning {
  std::string weights{};              // for read_weights(); empty: new ones
  bool new_head = false;              // the last layer, and what does not match, start anew
  std::vector<std::string> freeze{};  // patterns for nn::freeze()
};

// The step whose numbers are written: numbers::StepDumper.
struct DumpOptions {
  std::optional<std::int64_t> step{};  // from 1; unset: none
  std::string folder{};
  std::string made_by = "mezzo";  // which program, for the index
};

struct RunOptions {
  Device device{};  // of the network and its computations
  std::string model = "lenet5";
  std::string data = "digits";
  amp::Policy policy{amp::Level::kO2, DType::kBf16};
  // Operations and modules that are kept in f32 or computed in 16 bits whatever the level says, and
  // the treatment of batch normalisation; see amp/module_precision.h.
  amp::MixedPrecisionOptions precision{};
  // The precision of every operation, in the place of a level and of the options above; null: none.
  // The policy must then be plan->policy(): use_plan().
  std::shared_ptr<const amp::PrecisionPlan> plan{};
  std::string plan_file{};  // from which it was read; for people
  // With a plan: the number of steps between looks at the results of its f16 operations, of which
  // those that leave the range of f16 are widened: tune::PlanWatch. 0: never.
  std::int64_t watch_every = 100;
  LossScaling loss_scale{};
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps{};  // ends the run early
  std::int64_t batch_size = 64;
  // Height and width to which images are resized. 0: the data set's own size; for generated input,
  // which has none, the model's usual size.
  std::int64_t image_size = 0;
  // The length of sequences, for models that read tokens. 0: the model's usual.
  std::int64_t tokens = 0;
  OptimizerOptions optimizer{};
  ScheduleOptions schedule{};
  WatchOptions watch{};
  LossOptions loss{};
  FineTuning fine_tuning{};
  std::uint64_t seed = 1;
  bool shuffle = true;
  bool augment = true;  // augment training images as is usual for the data set; see data/open.h
  data::Mix mix{};      // mixup and cutmix of training batches
  data::BadImages bad_images = data::BadImages::kError;  // how unreadable images are handled
  bool graph = false;                 // capture the training step and replay it: graph::captured()
  bool exact_sums = false;            // convolutions by direct sums: mezzo::ExactSums
  bool activation_gradients = false;  // histograms also count activation gradients
  bool zero_init_residual = false;    // see ModelConfig::zero_init_residual
  std::int64_t workers = data::default_workers();  // threads that make batches
  // Modules, by the pattern of their path, whose intermediate results the backward pass recomputes
  // instead of keeping: nn::recompute(). It gives the same bits in less memory.
  std::vector<std::string> recompute{};
  bool sync_batchnorm = false;  // across all `processes`: nn::convert_sync_batchnorm()
  // Between the processes: see amp::TrainStepOptions.
  DType reduce_dtype = DType::kF32;
  bool shard_optimizer = false;
  // Skip steps with a bad gradient at every precision, and say in which call of a skipped step the
  // first infinity or NaN began: numbers::FirstOverflow.
  bool check_first_overflow = false;
  // Count the exponents of gradients, activations and weights every so many steps; 0: never.
  std::int64_t histogram_every = 0;
  DumpOptions dump{};
  CheckpointingOptions checkpoints{};
  // Called after each step: true ends the run, with a last checkpoint if there are any.
  std::function<bool()> should_stop{};
  // Processes that train together, each on `batch_size` images of every step; null: only this one.
  // The first one writes the checkpoints.
  distributed::ProcessGroup* processes = nullptr;
  std::int64_t process_count() const { return distributed::process_count(processes); }
  // Sets plan, policy and plan_file.
  void use_plan(amp::PrecisionPlan of_network, std::string file);
};

}  // namespace mezzo::train
