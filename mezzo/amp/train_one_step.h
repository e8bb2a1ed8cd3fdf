// A training step under mixed precision: forward, loss, backward, unscale and check, update.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/loss_function.h"
#include "mezzo/amp/loss_parts.h"
#include "mezzo/amp/loss_scale_manager.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/step_buffers.h"
#include "mezzo/amp/step_execution.h"
#include "mezzo/amp/update_on_device.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

// The network's output in f32, computed under the policy, or as the caller's region says if there
// is none. The loss belongs outside of the region: it is computed in f32 at every level.
Tensor forward(nn::Module& net, const Tensor& input, const std::optional<Policy>& policy);
// The same for a loss, which may read 16-bit outputs as they are.
Tensor forward_for(const LossFunction& loss, nn::Module& net, const Tensor& input,
                   const std::optional<Policy>& policy);

// What becomes of a step whose loss is infinite or NaN: data or activations are not finite, and no
// smaller scale makes them so.
enum class NonfiniteLoss : std::uint8_t {
  kSkip,      // the step is skipped; the loss scale stays
  kOverflow,  // PyTorch's way: backward, and what the gradients say counts; the scale shrinks
};

// The parts of a step whose times it reports.
enum class StepPhase : std::uint8_t { kForward, kBackward, kUpdate };
const char* name_of(StepPhase phase);  // `forward`, `backward`, `update`

struct TrainStepOptions {
  // Of a region around the forward pass, at O0 one that casts nothing; empty: the region in which
  // the step is called, if any. What is set on the network itself wins.
  std::optional<Policy> policy{};
  // Into how many parts a batch is split. Their gradients are added up, all at one scale and in f32
  // whatever the dtype of the parameters, before the one update; memory for activations is needed
  // for one part only. Loss and gradients are those of the whole batch, whatever a part counts
  // (loss_function.h). Batch norm sees each part by itself.
  std::int64_t micro_batches = 1;
  // Gradients are shortened to this norm after they were unscaled.
  std::optional<double> max_grad_norm{};
  NonfiniteLoss nonfinite_loss = NonfiniteLoss::kSkip;
  // A skipped step leaves the buffers of the network (running statistics of batch norm) as if it
  // had not been. Without, they keep what the forward pass of a skipped step made of them, but in
  // channels where that would not be finite.
  bool restore_buffers = true;
  // Told of every step and shown its gradients; it must outlive the step.
  GradientStatistics* statistics = nullptr;
  // Processes that train together, on CPUs, each on batches of its own: losses and gradients are
  // those of the batches of all of them as one, so that all skip the same steps and make the same
  // updates, bit for bit, of the weights and the optimizer's state that process 0 began with. Batch
  // norm sees each batch by itself, and running statistics are a process's own, unless
  // nn::convert_sync_batchnorm() was called. It must outlive the step; null, which a step makes of
  // a group of one: this process trains alone.
  distributed::ProcessGroup* processes = nullptr;
  // Told of each part of a step when it begins. Parts may take turns: forward and backward passes
  // of micro-batches, and in graph mode updates that are done within the backward pass.
  std::function<void(StepPhase)> on_phase{};
};

// Throws ArgumentError unless micro_batches and max_grad_norm are positive.
void check_step_options(const TrainStepOptions& options);

// What a step did, and how long its parts took.
struct TrainStepResult {
  double loss = 0;                    // before the update, unscaled; that of the whole batch
  bool overflow = false;              // a gradient was not finite
  bool nonfinite_loss = false;        // the loss was not
  bool skipped = false;               // hence nothing was updated
  double scale = 1;                   // the loss scale of this step
  double next_scale = 1;              // and of the next
  std::int64_t skipped_in_a_row = 0;  // up to and with this step
  std::string first_bad{};            // the first parameter with a non-finite gradient, by its name
  std::optional<double> grad_norm{};  // before it was clipped, if it is to be
  // Times of the host, which only queues work on devices: there what all of it takes is seen where
  // the step waits for its loss, in update_ms, or in backward_ms if a recording holds the update.
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;  // unscaling, checking, clipping, the optimizer
  double total_ms() const { return forward_ms + backward_ms + update_ms; }
};

// MindSpore's TrainOneStepWithLossScaleCell: does steps with a network, a loss and an optimizer,
// which must outlive it.
//
// A skipped step changes no parameter, no optimizer state and no buffer of the network, bit for
// bit; only the loss scale and the random numbers that dropout took move on. Without loss scaling
// gradients are not checked, and only a loss that is not finite skips its step (and, where
// gradients are clipped, their norm). A scaler that does not check skips nothing at all. Of many
// steps that are skipped in a row a warning is given, once (kManySkips in loss_scale.h).
class TrainOneStepWithLossScale {
 public:
  // Throws ArgumentError unless micro_batches and max_grad_norm are positive. Warns if loss scaling
  // is on for a network in bf16, which needs none.
  TrainOneStepWithLossScale(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
                            GradScaler scaler, TrainStepOptions options = {});

  // One step on a batch. The gradients of the network's and of the optimizer's parameters are
  // dropped before, and afterwards, also after an exception, which in graph mode may leave some
  // parameters updated (docs/graph.md). Throws ArgumentError if there are fewer examples than
  // micro-batches; in every process, if several train together and their scales differ.
  TrainStepResult operator()(const Tensor& input, const Tensor& labels);

  // The forward pass and the loss of a batch in inference mode: throws what they would throw in a
  // step, as far as training mode makes no difference, and changes nothing.
  void try_forward(const Tensor& input, const Tensor& labels);

  // Throws ArgumentError if the optimizer holds none of the network's parameters, as behind
  // half_parameters(), which replaces them: it would train nothing. The first step asks this;
  // Model::fit() each time.
  void check_optimizer() const;

  nn::Module& net() { return net_; }
  optim::Optimizer& optimizer() { return optimizer_; }
  GradScaler& scaler() { return scaler_; }
  const GradScaler& scaler() const { return scaler_; }
  const TrainStepOptions& options() const { return options_; }

  // Steps that were skipped up to now, the last one included; 0 if that was not skipped. A program
  // that goes on from a checkpoint puts it back, with the state of the scaler. Throws ArgumentError
  // for a negative number.
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  void set_skipped_in_a_row(std::int64_t steps);

  // Runs the bodies of steps that way from now on; an empty one simply calls them.
  void set_execution(StepExecution execution) { execution_ = std::move(execution); }
  // Gives back the memory that graph mode keeps between steps on CPUs, until the next step: what is
  // done meanwhile, such as an evaluation, then takes no memory besides. Nothing but memory
  // changes.
  void release_memory() { execution_.release_memory(); }

 private:
  struct Losses {
    std::vector<Tensor> tensors{};
    std::vector<double> weights{};  // of each
  };

  // The body of a step. What it does besides calls of operations is host work, for it may be
  // captured: what it says of a step is in result_.
  void run(const Tensor& input, const Tensor& labels);
  void execute(const Tensor& input, const Tensor& labels);
  std::uint64_t mode() const;
  // These are false if a loss is not finite and the step is skipped.
  bool accumulate(const Tensor& input, const Tensor& labels, const LossParts::Whole& whole,
                  double share);
  bool accumulate_all(const Tensor& input, const Tensor& labels);
  bool take_losses();
  double mean_loss(const Tensor& loss) const;
  void add_loss(double loss, double weight);
  bool goes_on();
  void begin(StepPhase phase);
  void enter(StepPhase phase);
  void end_phase();
  void begin_together();
  void average_gradients();
  bool needs_host() const;
  bool updates_by_leaf() const;
  void note_update_by_leaf();
  void queue_update();
  bool finish_update(UpdateOnDevice& update, std::span<const double> weights);
  void update();
  void clip();
  void take_result(const StepResult& step);
  void end_update();
  void count_skip();
  void warn_if_many() const;
  void skip();
  void drop_gradients() const;
  std::array<UpdateOnDevice::Player, 1> players() const {
    return {{{&optimizer_, options_.max_grad_norm}}};
  }
  bool skips_nonfinite_loss() const {
    return options_.nonfinite_loss == NonfiniteLoss::kSkip && may_skip();
  }
  bool may_skip() const { return !scaler_.is_enabled() || scaler_.checks_gradients(); }
  std::string name_of_parameter(std::size_t i) const;

  nn::Module& net_;
  optim::Optimizer& optimizer_;
  GradScaler scaler_;
  TrainStepOptions options_;
  LossParts loss_;
  StepExecution execution_;
  StepBuffers buffers_;
  bool has_begun_ = false;
  Losses losses_;  // not looked at yet
  std::shared_ptr<UpdateOnDevice> update_;
  std::size_t update_params_ = 0;         // that the optimizer had when it was made
  UpdateOnDevice::Checks update_checks_;  // what it was made for
  TrainStepResult result_;                // of the step that is under way
  StepPhase phase_ = StepPhase::kForward;
  std::chrono::steady_clock::time_point phase_begin_{};
  std::int64_t skipped_in_a_row_ = 0;
};

// What is left open follows from the level, as in MindSpore:
//
//   level  keep_batchnorm_fp32  cast_model_type  loss_scale_manager
//   O0     -                    -                none
//   O1     false                f32              none
//   O2     true                 dtype            DynamicLossScaleManager() for f16, else none
//   O3     false                dtype            none
//   auto   false                f32              none
// At O1 and auto normalisations are f32 whatever keep_batchnorm_fp32 says, as there.
// O0 leaves the network as it is, with the precision that it was given before, unless
// cast_model_type says otherwise. That a network is to be in f32 is said with
// auto_mixed_precision(net, "O0"), or with an O0 policy of the step for what is not set on the
// network itself.
struct TrainNetworkOptions {
  std::string level = "O0";
  // What 16 bits means at levels that use them: f16, as there, or bf16. Any at O0.
  DType dtype = DType::kF16;
  // A network with a 16-bit cast_model_type computes all in it (O3) or, with keep_batchnorm_fp32,
  // all but normalisations and losses (O2), whatever the level. With an f32 one O2 and O3 leave the
  // network as it is, except O2 with an explicit keep_batchnorm_fp32 = false, which computes all in
  // `dtype`. The other levels are auto_mixed_precision()'s.
  std::optional<bool> keep_batchnorm_fp32{};
  std::optional<DType> cast_model_type{};
  // LossScaleManager() stands for none.
  std::optional<LossScaleManager> loss_scale_manager{};
  TrainStepOptions step{};
};

// Sets the precision of the network (see module_precision.h) and gives the step that trains it.
// Output, labels and loss are f32. Throws ArgumentError for an unknown level, naming those that
// exist, and for dtypes that do not fit. Warns where f16 is to be trained without loss scaling by
// default, as it is at O1, auto and O3, and at O0 if the network was set to f16 before.
TrainOneStepWithLossScale build_train_network(nn::Module& net, LossFunction loss,
                                              optim::Optimizer& optimizer,
                                              const TrainNetworkOptions& options = {});

}  // namespace mezzo::amp
