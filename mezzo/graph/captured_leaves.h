// The gradients of leaves while a step is captured: those they had, and those the step gives them.
#pragma once

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::graph {

class CapturedLeaves {
 public:
  // A leaf that the step uses; what it has for a gradient before the step is remembered.
  void note(const Tensor& leaf);
  // A leaf that gets a gradient from the step.
  void note_gradient(const Tensor& leaf);
  // Leaves whose gradients the step drops.
  void note_dropped(std::span<const Tensor> leaves);

  // How many storages of leaves the step has made itself.
  int made_by_step() const;
  // Leaves that have a gradient of this step now.
  std::vector<Tensor> with_gradient() const;
  // Those that get one which is added to what they had: the step has not dropped that first.
  std::vector<Tensor> added_to() const;

  // Gradients that host work is about to change in place: one that anybody else can see, or whose
  // elements do not lie in a block of their own, is replaced by a copy, as it is eagerly.
  static void separate(std::span<const Tensor> changed);
  // Throws ArgumentError if that is the memory of a gradient from before: what a leaf had before
  // would be added to its gradient in every run.
  void check_not_from_before(const Storage* used) const;

  // Drops the gradients of this step; with `restore`, leaves get back what they had before, unless
  // the step was to drop it.
  void clean_up(bool restore);

 private:
  std::vector<Tensor> leaves_;
  std::vector<std::pair<Tensor, Tensor>> old_gradients_;  // of leaves when they were first used
  std::vector<Tensor> given_;                             // leaves that get one from the step
  std::set<const TensorImpl*> dropped_first_;
};

}  // namespace mezzo::graph
