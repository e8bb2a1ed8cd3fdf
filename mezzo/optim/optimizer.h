// Optimizer: the base of all optimizers, with parameter groups, gradients, learning rates, and
// state for checkpoints.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/update_step.h"
#include "mezzo/optim/learning_rate.h"
#include "mezzo/optim/shard.h"

namespace mezzo::optim {

using mezzo::ParamUpdate;

// Parameters that are trained with the same options.
template <class Options>
struct Group {
  std::vector<Tensor> params;
  Options options;
};

// A number that is part of an optimizer's state.
struct NamedCounter {
  std::string name;
  std::int64_t value = 0;
};

// The queued update of a group, made when it is first put.
using UpdateQueue = std::unique_ptr<QueuedUpdate>;

// `most`: parameters of the group.
void put(UpdateQueue& queue, std::size_t most, const std::vector<UpdateTensors>& tensors,
         const UpdateStep& step);

// Parameters are numbered in the order in which they were given, over all groups. They are f32
// or in 16 bits; everything that an optimizer computes and accumulates is f32. Each group has a
// rule for updating 16-bit parameters; param_update.h explains why it matters:
//
//   amp::half_parameters(net, DType::kBf16);
//   optim::Sgd sgd(net.parameters(), {.lr = 0.1, .param_update = optim::ParamUpdate::kKahan});
//
// State of a 16-bit parameter: `master.<parameter>` (f32) or `compensation.<parameter>`, from the
// first step with a gradient on. Counters: `rounding.seed` and `rounding.offset`, the position in
// the random stream of stochastic rounding. The stream is seeded from default_generator() when the
// optimizer is made, and does not depend on the number of threads.
//
// A 16-bit parameter that others change, for example load_state(), keeps its new value. In the next
// step, elements of the master that no longer round to it are replaced by the parameter's. A new
// compensation begins, unless set_state() has set one since.
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // The optimizer's name in messages and checkpoints.
  const char* name() const { return name_; }
  // The tensors that it updates: its parameters, or after shard() this process's parts of them.
  const std::vector<Tensor>& params() const { return params_; }
  // The parameters as they were given.
  const std::vector<Tensor>& whole_params() const { return is_sharded() ? whole_ : params_; }

  // From now on keeps the state of part `shard.part` of each parameter alone and updates that part,
  // as one of several processes that share the work (sharded.h). params() are then leaves [n] over
  // the memory of the parameters, with gradients of their own, which training steps give them
  // (give_gradients_to_parts() in sharded.h); step() throws where a whole parameter has one. State
  // that exists is cut. Does nothing if it is sharded that way already. Throws ArgumentError if it
  // is sharded otherwise, unless 0 <= part < parts, and in later calls of add_group().
  void shard(const Shard& shard);
  bool is_sharded() const { return shard_.parts > 1; }
  const Shard& shard() const { return shard_; }
  // To be called after the other processes' parts of 16-bit parameters were written into them: this
  // is no change by somebody else, after which masters and compensations would follow.
  void note_gathered();
  // Throws ArgumentError if a parameter has other memory than when it was sharded, as after a move
  // to another device.
  void check_not_moved() const;

  // Updates every parameter that has a gradient, in place. Gradients are multiplied by `inv_scale`
  // on the way, which removes a loss scale without another pass. Throws ArgumentError, before
  // anything has changed, if a gradient is neither f32 nor in its parameter's dtype: a 16-bit
  // gradient of an f32 parameter has lost what the step needs. If the update of a group throws,
  // state that it has created is removed; earlier groups have been updated.
  void step(double inv_scale = 1);
  // Drops all gradients, those of whole parameters, too. The next backward pass then writes them
  // instead of adding to zeros.
  void zero_grad();

  std::size_t groups() const { return ends_.size(); }
  // The learning rate of a group's next update. Throws ArgumentError for a group that does not
  // exist.
  double lr(std::size_t group = 0) const;
  // Whether the learning rate is a constant, not an array with a rate for each update. Throws like
  // lr().
  bool has_constant_lr(std::size_t group = 0) const;
  // Sets the learning rate of all groups, or of one, replacing a previous constant or array. Throws
  // ArgumentError for negative rates, for a group that does not exist, and during a capture.
  void set_lr(const LearningRate& lr);
  void set_lr(const LearningRate& lr, std::size_t group);
  // The number of updates done, which is the position in an array of learning rates: calls of
  // step() that found a gradient. A step that was skipped because of an overflow does not count, as
  // in MindSpore.
  std::int64_t updates() const { return updates_; }

  // The state tensors that exist so far (not copies), with names such as `momentum.3` for parameter
  // 3, and the counters: `updates`, once there was one, and those of the optimizer. A checkpoint
  // stores these, so that training can resume exactly. When sharded they are this process's parts;
  // gathered_state() in sharded.h has the whole ones.
  virtual std::vector<NamedTensor> state() const = 0;
  virtual std::vector<NamedCounter> counters() const = 0;
  // Zeros with the dtype of this entry of state() and the shape and format that it has when it is
  // not sharded.
  virtual Tensor whole_like(const NamedTensor& entry) const;
  // Restores one entry, as when a checkpoint is loaded; a tensor is copied. When sharded, takes the
  // whole state, of which it keeps its part, or the part. Throws ArgumentError for names that
  // state() or counters() can never return, for tensors of another shape, and for negative counters
  // except the seed of stochastic rounding.
  virtual void set_state(std::string_view name, const Tensor& tensor) = 0;
  virtual void set_counter(std::string_view name, std::int64_t value) = 0;
  // Resets all state and all counters, as if no step had been done. Learning rates and the position
  // in the random stream of stochastic rounding stay. The tensors that state() has returned are not
  // changed.
  virtual void clear_state() = 0;

  // For steps that were captured with `params` parameters: throws ArgumentError if there are more
  // by now, which the step would leave out.
  void check_captured(std::size_t params) const;

 protected:
  // A parameter that has a gradient, and the gradient in the parameter's layout.
  struct Active {
    std::size_t index = 0;
    Tensor grad;
  };

  // `name` is the optimizer's name in messages.
  explicit Optimizer(const char* name) : name_(name) {}
  // Throws ArgumentError, before anything has changed, unless the parameters are dense leaves in
  // f32 or 16 bits that share no memory with each other or with those of earlier groups, and the
  // learning rates are not negative.
  void add_group(const std::vector<Tensor>& params, const LearningRate& lr, ParamUpdate rule);
  // Updates the given parameters, all of them in `group`, or puts the update into the queue if
  // there is one. Missing state is created with ensure().
  virtual void update(std::size_t group, const std::vector<Active>& active, double inv_scale,
                      UpdateQueue* queue) = 0;
  // Counts a step of these parameters after it is done.
  virtual void count_step(const std::vector<Active>& /*active*/) {}

  std::size_t params_in(std::size_t group) const {
    return ends_[group] - (group > 0 ? ends_[group - 1] : 0);
  }
  // The state, created by `make` if it does not exist yet. If the step turns out to be skipped, the
  // new state is removed.
  template <class Make>
  const Tensor& ensure(Tensor& state, const Make& make) {
    if (!state.defined()) {
      state = make();
      made_.push_back({&state, state.impl_ref()});
    }
    return state;
  }
  // A tensor of zeros with the layout of parameter i.
  Tensor zeros_like(std::size_t i, DType dtype = DType::kF32) const;
  // The additional state of parameter i if it has 16 bits; created if it does not exist yet.
  HalfUpdate half_update(std::size_t i);
  // The parts of state(), counters(), set_state(), set_counter() and clear_state() that all
  // optimizers share. The setters return false if the name is not one of theirs.
  void append_half_state(std::vector<NamedTensor>& out) const;
  void append_shared_counters(std::vector<NamedCounter>& out) const;
  bool set_half_state(std::string_view state_name, const Tensor& tensor);
  bool set_shared_counter(std::string_view counter_name, std::int64_t value);
  void clear_shared_state();
  // The index in `prefix.index`; throws ArgumentError if `state_name` is not of that form.
  std::size_t index_in(std::string_view state_name, std::string_view prefix) const;
  // The parameter of a state that is called `<name>.<parameter>`.
  std::size_t parameter_of(std::string_view state_name) const;
  // Where this process's part of parameter i begins and ends among its elements in memory.
  ShardRange part_of(std::size_t i) const;
  // Copies a loaded tensor into the state of parameter i, which is kept in `dtype`.
  void assign(Tensor& state, std::size_t i, std::string_view state_name, const Tensor& tensor,
              DType dtype = DType::kF32) const;

 private:
  // The update rule of a parameter, and its additional state if it has 16 bits.
  struct Half {
    ParamUpdate rule = ParamUpdate::kMaster;
    Tensor master{};
    Tensor compensation{};
    std::optional<std::uint64_t> version{};  // of the parameter that this state belongs to
  };

  friend class QueuedStep;
  friend class StepInParts;

  using ActiveGroups = std::vector<std::vector<Active>>;  // one list for each group

  // State that was created during a step.
  struct Made {
    Tensor* place;
    Ref<TensorImpl> tensor;
  };

  void check_parts_have_gradients() const;
  bool step_captured(double inv_scale);
  void note_step(double inv_scale);
  ActiveGroups begin_step();
  void follow_parameters();
  std::size_t group_of(std::size_t param) const;
  void update_group(std::size_t group, const std::vector<Active>& active, double inv_scale);
  static void take_back(const std::vector<Made>& made);
  void count_steps(const ActiveGroups& active);
  bool set_rounding(std::string_view counter_name, std::int64_t value);
  void check_new(const std::vector<Tensor>& group, std::size_t i) const;
  bool has_half_state(std::size_t i) const;
  void follow_parameter(std::size_t i);
  void check_grad(std::size_t i, const Tensor& grad) const;
  bool can_take(std::size_t i, const Tensor& grad) const;
  Active active_at(std::size_t i) const;
  void check_group(std::size_t group) const;
  void check_lr(const LearningRate& lr) const;

  const char* name_;
  std::vector<Tensor> params_;
  std::vector<Tensor> whole_;  // the parameters whose parts are in params_, if it is sharded
  Shard shard_;
  std::deque<Half> halves_;            // one per parameter; ensure() stores pointers into it
  std::optional<Generator> rounding_;  // only with stochastic rounding
  std::vector<std::size_t> ends_;      // group g is the parameters [ends_[g - 1], ends_[g])
  std::vector<LearningRate> rates_;    // one per group
  std::int64_t updates_ = 0;
  std::vector<Made> made_;  // created since the step began
};

}  // namespace mezzo::optim
