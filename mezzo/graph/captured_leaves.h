// The gradients of leaves during a capture: those from before, and those from the step.
#pragma once

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::graph {

class CapturedLeaves {
 public:
  // Notes a leaf that the step uses, and its gradient from before the step.
  void note(const Tensor& leaf);
  // Notes a leaf that gets a gradient from the step.
  void note_gradient(const Tensor& leaf);
  // Notes leaves whose gradients the step drops.
  void note_dropped(std::span<const Tensor> leaves);

  // The number of storages of leaves that the step has created itself.
  int made_by_step() const;
  // Leaves that currently have a gradient from this step.
  std::vector<Tensor> with_gradient() const;
  // Leaves whose new gradient is added to an old one, because the step has not dropped that first.
  std::vector<Tensor> added_to() const;

  // Prepares gradients that host work will change in place: one that others use, or whose elements
  // are not one block of their own, is replaced by a copy, as in eager mode.
  static void separate(std::span<const Tensor> changed);
  // Throws ArgumentError if `used` is the memory of a gradient from before: every run would add
  // that old gradient.
  void check_not_from_before(const Storage* used) const;

  // Drops the gradients of this step. With `restore`, leaves get back their gradients from before,
  // unless the step drops those.
  void clean_up(bool restore);

 private:
  std::vector<Tensor> leaves_;
  std::vector<std::pair<Tensor, Tensor>> old_gradients_;  // of leaves at their first use
  // leaves that get a gradient from the step
  std::vector<Tensor> given_;
  std::set<const TensorImpl*> dropped_first_;
};

}  // namespace mezzo::graph
