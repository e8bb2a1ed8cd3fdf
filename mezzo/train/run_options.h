// The options of a training run, in groups.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/policy.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/readable.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/train/schedule.h"

namespace mezzo::train {

// How gradients are scaled. By default f16 scales dynamically and bf16 not at all.
struct LossScaling {
  enum class Kind : std::uint8_t { kDefault, kNone, kDynamic, kStatic };
  Kind kind = Kind::kDefault;
  double scale = 0;  // of kStatic

  // What is done under a policy: the kind, or what kDefault stands for there.
  Kind kind_for(const amp::Policy& policy) const;
};

// The scaler for a policy. A static one keeps its scale, and still skips steps with non-finite
// gradients.
amp::GradScaler make_scaler(const LossScaling& scaling, const amp::Policy& policy);

struct CheckpointingOptions {
  std::string folder{};                 // empty: no checkpoints
  std::optional<std::int64_t> every{};  // steps; 0, or not given: after each epoch
  std::optional<std::int64_t> keep{};   // the newest so many stay, 3 if it is not given; 0: all
  bool keep_best = false;  // besides, the one with the best test accuracy, in `FOLDER/best`
  bool resume = false;     // go on from the newest sound one, if there is one
};

enum class OptimizerKind : std::uint8_t { kSgd, kAdam, kAdamW };

// The learning rate of the parameters that a pattern names: see nn::parameters_matching().
struct RateOf {
  std::string pattern{};
  double lr = 0;  // where that of the run is OptimizerOptions::lr; along a schedule, in proportion

  bool operator==(const RateOf&) const = default;
};

// What updates the parameters, and with which settings. What one kind does not read is ignored.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.01;
  double momentum = 0.9;  // of SGD
  bool nesterov = false;  // of SGD, with a momentum
  double beta1 = 0.9;     // of Adam and AdamW
  double beta2 = 0.999;   // likewise
  double eps = 1e-8;      // likewise
  double weight_decay = 0;
  std::vector<RateOf> lr_of{};  // a later one counts where two name the same parameter
  // Into how many parts a batch is split, whose gradients are added up: micro_batches of
  // amp::TrainStepOptions.
  std::int64_t accumulate = 1;
  std::optional<double> clip{};  // max_grad_norm of amp::TrainStepOptions
};

// The settings of a kind if nothing is said: PyTorch's; of SGD, those above.
OptimizerOptions usual_options(OptimizerKind kind);

// How the learning rate changes along a run; see Schedule.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr_init = 0;     // where the warm-up begins
  double lr_end = 0;      // where linear and half-cosine end; see below
  double lr_gamma = 0.9;  // of exponential, per epoch
  double warmup_epochs = 0;
  // Of plateau, and lr_end as the least rate: see ReduceLROnPlateau. Epochs of the warm-up do not
  // count.
  double lr_factor = 0.1;
  std::int64_t lr_patience = 10;
  std::int64_t lr_cooldown = 0;
};

// What follows the validation of a run, and whose it is.
struct WatchOptions {
  // The decay of averaged weights, which are validated, and are what is trained in the end: see
  // ExponentialMovingAverage.
  std::optional<double> ema{};
  bool ema_warmup = false;
  // Epochs after which a run ends that does not get better: see EarlyStopping.
  std::optional<std::int64_t> early_stop{};
  std::string monitor = "loss";  // the metric of the plateau and of early_stop; or accuracy
};

// Of the cross entropy that is trained.
struct LossOptions {
  double label_smoothing = 0;  // not in evaluation
  // What each class counts, in training and in evaluation: see set_class_weights().
  std::vector<double> class_weights{};  // one for each class; empty: 1
  bool balances_classes = false;        // such that all count the same in the training set
};

// What a run begins with, and what of it stays.
struct FineTuning {
  std::string weights{};              // for read_weights(); empty: new ones
  bool new_head = false;              // but for the last layer, and for what does not fit
  std::vector<std::string> freeze{};  // patterns for nn::freeze()
};

struct RunOptions {
  Device device{};  // where the network and what it computes are
  std::string model = "lenet5";
  std::string data = "digits";
  amp::Policy policy{amp::Level::kO2, DType::kBf16};
  // Operations and modules that are kept in f32 or computed in 16 bits whatever the level says, and
  // what becomes of batch normalisation; see amp/module_precision.h.
  amp::MixedPrecisionOptions precision{};
  LossScaling loss_scale{};
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps{};  // ends the run early
  std::int64_t batch_size = 64;
  // Height and width that images are brought to. 0: the data set's own; for generated input, where
  // there is none, the model's usual one.
  std::int64_t image_size = 0;
  OptimizerOptions optimizer{};
  ScheduleOptions schedule{};
  WatchOptions watch{};
  LossOptions loss{};
  FineTuning fine_tuning{};
  std::uint64_t seed = 1;
  bool shuffle = true;
  bool augment = true;  // vary training images as is usual for the data set; see data/open.h
  data::Mix mix{};      // mixup and cutmix of training batches
  data::BadImages bad_images = data::BadImages::kError;  // those that cannot be read
  bool graph = false;                 // capture the training step and replay it: graph::captured()
  bool activation_gradients = false;  // histograms count those, too
  std::int64_t workers = data::default_workers();  // threads that make batches
  bool zero_init_residual = false;                 // else: ModelConfig::zero_init_residual
  // Modules by the pattern of their path whose insides the backward pass computes again instead of
  // keeping them: nn::recompute(). The same bits in less memory.
  std::vector<std::string> recompute{};
  bool sync_batchnorm = false;       // of all `processes`: nn::convert_sync_batchnorm()
  std::int64_t histogram_every = 0;  // steps between those whose gradients are counted; 0: never
  CheckpointingOptions checkpoints{};
  // Asked after each step: true ends the run, with a last checkpoint if there are any.
  std::function<bool()> should_stop{};
  // That train together, each on `batch_size` images of every step, on CPUs; null: this one alone.
  // The first one writes the checkpoints.
  distributed::ProcessGroup* processes = nullptr;
  std::int64_t process_count() const { return distributed::process_count(processes); }
};

}  // namespace mezzo::train
