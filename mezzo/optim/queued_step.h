// An optimizer's step as kernels that a recording holds.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/ops/update/update_step.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// A step of an optimizer in three parts, so that a recording can hold its kernels (see
// HostCall::prepare in ops/dispatcher/capture_hook.h). Gradients must lie as their parameters do.
class QueuedStep {
 public:
  // The optimizer must outlive it.
  explicit QueuedStep(Optimizer& optimizer)
      : optimizer_(optimizer), params_(optimizer.params().size()) {}

  // False if a gradient would have to be laid out anew, for which its values would be needed, and
  // if there are no parameters, or on several devices.
  static bool fits(const Optimizer& optimizer);

  // What step(inv_scale) does before its kernels. The gradients' values may come later. Takes the
  // place of a step that was prepared and never finished.
  void prepare(double inv_scale);
  // The kernels of the step that was prepared last.
  void queue(const UpdateConditions& conditions) const;
  // Once it is known whether they were done: counts the step, or takes back what prepare() made.
  void finish(bool done);
  // True if a parameter had a gradient when the step was prepared.
  bool has_gradients() const;

 private:
  void put(double inv_scale);
  void take_back();
  std::optional<RandomPosition> position() const;

  Optimizer& optimizer_;
  std::size_t params_;               // that the optimizer had
  std::vector<UpdateQueue> queues_;  // one for each group
  std::vector<bool> is_active_;      // groups with gradients
  // Of a step that is not finished.
  Optimizer::ActiveGroups active_;
  std::vector<Optimizer::Made> made_;
  std::optional<RandomPosition> rounding_before_;
  std::optional<RandomPosition> rounding_behind_;
};

}  // namespace mezzo::optim
