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

#include "mezzo/amp/forward.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/loss_of_batch.h"
#include "mezzo/amp/loss_parts.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/step_buffers.h"
#include "mezzo/amp/step_execution.h"
#include "mezzo/amp/step_observer.h"
#include "mezzo/amp/update_on_device.h"
#include "mezzo/core/random.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/gradient_exchange.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

// What happens to a step whose loss is infinite or NaN. Then data or activations are not finite,
// and a smaller scale would not change that.
enum class NonfiniteLoss : std::uint8_t {
  kSkip,      // the step is skipped; the loss scale stays
  kOverflow,  // as in PyTorch: run backward and let the gradients decide; the scale shrinks
};

// The phases of a step, whose times it reports.
enum class StepPhase : std::uint8_t { kForward, kBackward, kUpdate };
const char* name_of(StepPhase phase);  // `forward`, `backward`, `update`

struct TrainStepOptions {
  // The policy of a region around the forward pass; O0 casts nothing. Empty: the region in which
  // the step is called, if any. Settings of the network itself win.
  std::optional<Policy> policy{};
  // The number of parts into which all tensors of a batch are split. Their gradients are summed
  // before the one update, all at one scale and in f32 whatever the dtype of the parameters. Only
  // one part at a time needs memory for activations. Loss and gradients are those of the whole
  // batch, whatever a part counts (loss_function.h). Batch norm normalises each part by itself.
  std::int64_t micro_batches = 1;
  // Gradients are clipped to this norm after they were unscaled.
  std::optional<double> max_grad_norm{};
  NonfiniteLoss nonfinite_loss = NonfiniteLoss::kSkip;
  // A gradient that is not finite skips its step even without loss scaling, which checks gradients
  // anyway. Otherwise it would spoil the weights, and where it came from could not be found out.
  bool check_gradients = false;
  // A skipped step restores the buffers of the network (running statistics of batch norm). If
  // false, they keep the values from the forward pass of a skipped step, except in channels where
  // these would not be finite.
  bool restore_buffers = true;
  // Notified of every step and shown its gradients; must outlive the step. Processes that train
  // together all need one, or none, and count the same steps.
  GradientStatistics* statistics = nullptr;
  // Told of the calls of those steps that they want to observe; must outlive the step. Processes
  // that train together need the same observers.
  std::vector<StepObserver*> observers{};
  // Processes that train together, each on its own batches. Losses and gradients are those
  // of all their batches together. So all processes skip the same steps and make the same updates,
  // bit for bit, starting from the weights and the optimizer's state of process 0. Batch norm
  // normalises each batch by itself, and running statistics belong to a process, unless
  // nn::convert_sync_batchnorm() was called. The group must outlive the step. Null: this process
  // trains alone; a group of one is treated as null.
  distributed::ProcessGroup* processes = nullptr;
  // The dtype in which processes exchange gradients: f32, bf16 or f16. 16 bits halve the bytes, and
  // round each gradient before and after it is summed in f32 (optim/gradient_bucket.h).
  DType reduce_dtype = DType::kF32;
  // Processes share the optimizer's work: each keeps the state and the summed gradients of its part
  // of every parameter, and updates that part. So the optimizer is sharded from now on (see
  // Optimizer::shard()). Bits stay, except where gradients are clipped, for a norm is then summed
  // in another order. No effect on a process alone.
  bool shard_optimizer = false;
  // Called at the beginning of each phase of a step. Phases may alternate: forward and backward
  // passes of micro-batches, and in graph mode updates within the backward pass.
  std::function<void(StepPhase)> on_phase{};
};

class ScaleHistories;

// Throws ArgumentError unless micro_batches and max_grad_norm are positive and gradients can be
// exchanged in reduce_dtype.
void check_step_options(const TrainStepOptions& options);

// The result of a step, and the times of its phases.
struct TrainStepResult {
  double loss = 0;                    // unscaled loss of the whole batch, before the update
  bool overflow = false;              // a gradient was not finite
  bool nonfinite_loss = false;        // the loss was not finite
  bool skipped = false;               // nothing was updated
  double scale = 1;                   // the loss scale of this step
  double next_scale = 1;              // and of the next
  std::int64_t skipped_in_a_row = 0;  // including this step
  std::string first_bad{};            // name of the first parameter with a non-finite gradient
  std::optional<double> grad_norm{};  // before clipping, if gradients are clipped
  // Times of the host, which only queues work on devices. There the time of the whole step appears
  // where the step waits for its loss: in update_ms, or in backward_ms if a recording holds the
  // update.
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;  // unscaling, checking, clipping, the optimizer
  double total_ms() const { return forward_ms + backward_ms + update_ms; }
};

// MindSpore's TrainStepCell: runs training steps with a network, a loss and an
// optimizer, which must outlive it.
//
// A skipped step changes no parameter, no optimizer state and no buffer of the network, bit for
// bit; only the loss scale and the random numbers that dropout has drawn advance. Without loss
// scaling gradients are not checked, and only a loss that is not finite skips its step (and, where
// gradients are clipped, a norm that is not finite). A scaler that does not check never skips. If
// many consecutive steps are skipped, it warns once (kManySkips in loss_scale.h).
class TrainStep {
 public:
  // Throws ArgumentError unless micro_batches and max_grad_norm are positive. Warns if loss scaling
  // is on for a bf16 network, which does not need it. A LossOfBatch calls the network itself.
  TrainStep(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer, GradScaler scaler,
            TrainStepOptions options = {});
  TrainStep(nn::Module& net, const LossOfBatch& loss, optim::Optimizer& optimizer,
            GradScaler scaler, TrainStepOptions options = {});

  // Runs one step on a batch. The gradients of the network's and of the optimizer's parameters are
  // dropped before and afterwards, even after an exception, which in graph mode may leave some
  // parameters updated (docs/graph.md). Throws ArgumentError if there are fewer examples than
  // micro-batches, or if tensors of a batch that is split have different numbers of rows. Throws it
  // in every process if several train together and their scales differ.
  TrainStepResult operator()(const Tensor& input, const Tensor& labels);
  TrainStepResult operator()(const Batch& batch);

  // Runs the forward pass and the loss of a batch in inference mode. Throws what they would throw
  // in a step, as far as training mode makes no difference, and changes nothing.
  void try_forward(const Tensor& input, const Tensor& labels);
  void try_forward(const Batch& batch);

  // Makes the forward and the backward pass of a step on a batch, by calls, with the loss times
  // `scale`, and shows the observer what a step would show it. Nothing is updated and nothing
  // remains: weights, buffers, gradients, random numbers and the loss scale are those from before.
  // Returns the loss. Processes that train together make it together. Throws what a step throws.
  TrainStepResult probe(const Batch& batch, double scale, StepObserver& observer);

  // The scales of products in eight bits under delayed scaling, of the network's settings or the
  // step's policy; null if there are none.
  std::shared_ptr<ScaleHistories> scale_histories() const;

  // Throws ArgumentError if the optimizer holds none of the network's parameters, for example after
  // half_parameters(), which replaces them: it would train nothing. The first step checks this;
  // Model::fit() does each time.
  void check_optimizer() const;

  nn::Module& net() { return net_; }
  optim::Optimizer& optimizer() { return optimizer_; }
  GradScaler& scaler() { return scaler_; }
  const GradScaler& scaler() const { return scaler_; }
  const TrainStepOptions& options() const { return options_; }

  // The number of consecutive steps that were skipped, including the last one; 0 if that was not
  // skipped. A program that resumes from a checkpoint sets it, with the state of the scaler. Throws
  // ArgumentError for a negative number.
  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  void set_skipped_in_a_row(std::int64_t steps);

  // Sets how the bodies of steps run from now on; an empty execution simply calls them.
  void set_execution(StepExecution execution) { execution_ = std::move(execution); }
  // Frees the memory that graph mode keeps between steps on CPUs, until the next step. Work in
  // between, such as an evaluation, then needs no additional memory. Nothing but memory changes.
  void release_memory() { execution_.release_memory(); }

 private:
  struct Losses {
    std::vector<Tensor> tensors{};
    std::vector<double> weights{};  // weight of each loss
  };

  // The body of a step. It may be captured, so everything in it besides calls of operations is host
  // work, and reports through result_.
  void run(const Batch& batch);
  void execute(const Batch& batch);
  void replay(const Batch& batch, RandomPosition start);
  void begin_observers(const Batch& batch);
  StepMode mode(const Batch& batch) const;
  // These return false if a loss is not finite and the step is skipped.
  bool accumulate(const Batch& part, const LossParts::Whole& whole, double share,
                  LeafListener* listener);
  bool accumulate_all(const Batch& batch, LeafListener* listener = nullptr);
  bool take_losses();
  double mean_loss(const Tensor& loss) const;
  void add_loss(double loss, double weight);
  bool goes_on();
  void begin(StepPhase phase);
  void enter(StepPhase phase);
  void end_phase();
  void begin_together();
  bool is_sharded() const { return optimizer_.is_sharded(); }
  optim::GradientExchange* begin_exchange();
  bool shows_whole_gradients() const;
  optim::GradientExchange::Note scale_note();
  bool shows_gradients() const;
  void show_gradients();
  bool needs_host() const;
  bool updates_by_leaf() const;
  void note_update_by_leaf();
  void queue_update();
  bool finish_update(UpdateOnDevice& update, std::span<const double> weights);
  void update();
  void update_sharded();
  void clip();
  void check_unscaled();
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
  // Whether gradients are checked without loss scaling: where they are clipped, that costs nothing.
  bool checks_unscaled() const {
    return options_.check_gradients || options_.max_grad_norm.has_value();
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
  Losses losses_;                         // not read yet
  std::vector<StepObserver*> observing_;  // those of the current step
  std::shared_ptr<UpdateOnDevice> update_;
  std::size_t update_params_ = 0;         // the parameters in the optimizer when update_ was made
  UpdateOnDevice::Checks update_checks_;  // the checks that update_ was made for
  std::shared_ptr<optim::GradientExchange> exchange_;  // between processes
  TrainStepResult result_;                             // result of the current step
  StepPhase phase_ = StepPhase::kForward;
  std::chrono::steady_clock::time_point phase_begin_{};
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace mezzo::amp
