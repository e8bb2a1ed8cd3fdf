// An optimizer's step as kernels that a recording can hold.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/ops/update/update_step.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// A step of an optimizer in three parts, so that a recording can hold its kernels (see
// HostCall::prepare in ops/dispatcher/capture_hook.h). Gradients must have the layout of their
// parameters.
class QueuedStep {
 public:
  // The optimizer must outlive it.
  explicit QueuedStep(Optimizer& optimizer)
      : optimizer_(optimizer), params_(optimizer.params().size()) {}

  // False if a gradient would have to be copied to another layout, which needs its values, if there
  // are no parameters, or if they are on several devices.
  static bool fits(const Optimizer& optimizer);

  // Does what step(inv_scale) does before its kernels. The gradients' values may be written later.
  // Replaces a step that was prepared and never finished.
  void prepare(double inv_scale);
  // Queues the kernels of the step that was prepared last.
  void queue(const UpdateConditions& conditions) const;
  // Once it is known whether the kernels ran: counts the step, or removes the state that prepare()
  // created.
  void finish(bool done);
  // True if a parameter had a gradient when the step was prepared.
  bool has_gradients() const;

 private:
  void put(double inv_scale);
  void take_back();
  std::optional<RandomPosition> position() const;

  Optimizer& optimizer_;
  std::size_t params_;               // number of the optimizer's parameters
  std::vector<UpdateQueue> queues_;  // one for each group
  std::vector<bool> is_active_;      // groups with gradients
  // State of a step that is not finished.
  Optimizer::ActiveGroups active_;
  std::vector<Optimizer::Made> made_;
  std::optional<RandomPosition> rounding_before_;
  std::optional<RandomPosition> rounding_behind_;
};

}  // namespace mezzo::optim
