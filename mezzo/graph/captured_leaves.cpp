#include "mezzo/graph/captured_leaves.h"

#include <algorithm>
#include <iterator>

#include "mezzo/graph/placeholder.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/grad_mode.h"

namespace mezzo::graph {
namespace {

bool has_gradient_of_this_run(const Tensor& leaf) {
  return leaf.grad().defined() && placeholder_of(leaf.grad()) != nullptr;
}

// False if the leaf is there already.
bool add_once(std::vector<Tensor>& leaves, const Tensor& leaf) {
  const auto is_same = [&](const Tensor& known) { return known.impl() == leaf.impl(); };
  if (std::ranges::any_of(leaves, is_same)) return false;
  leaves.push_back(leaf);
  return true;
}

}  // namespace

void CapturedLeaves::note(const Tensor& leaf) {
  if (!add_once(leaves_, leaf) || !leaf.grad().defined()) return;
  if (!has_gradient_of_this_run(leaf)) old_gradients_.emplace_back(leaf, leaf.grad());
}

void CapturedLeaves::note_gradient(const Tensor& leaf) { add_once(given_, leaf); }

void CapturedLeaves::note_dropped(std::span<const Tensor> leaves) {
  for (const Tensor& leaf : leaves) {
    if (!has_gradient_of_this_run(leaf)) dropped_first_.insert(leaf.impl());
  }
}

std::vector<Tensor> CapturedLeaves::with_gradient() const {
  std::vector<Tensor> result;
  std::ranges::copy_if(leaves_, std::back_inserter(result), has_gradient_of_this_run);
  return result;
}

std::vector<Tensor> CapturedLeaves::added_to() const {
  std::vector<Tensor> result;
  std::ranges::copy_if(given_, std::back_inserter(result),
                       [&](const Tensor& leaf) { return !dropped_first_.contains(leaf.impl()); });
  return result;
}

void CapturedLeaves::separate_from(std::span<const Tensor> changed) const {
  for (const Tensor& other : leaves_) {
    if (!has_gradient_of_this_run(other)) continue;
    const auto is_other = [&](const Tensor& leaf) { return leaf.impl() == other.impl(); };
    const auto shares = [&](const Tensor& leaf) {
      return leaf.grad().defined() && leaf.grad().storage() == other.grad().storage();
    };
    if (std::ranges::any_of(changed, shares) && std::ranges::none_of(changed, is_other)) {
      const NoGrad guard;
      other.set_grad(affine(other.grad(), 1, -0.0));  // plus minus zero is every number itself
    }
  }
}

void CapturedLeaves::check_not_from_before(const Storage* used) const {
  for (const auto& [leaf, grad] : old_gradients_) {
    check_arg(grad.storage().get() != used, "capture", "the step uses the gradient that ", leaf,
              " has from before. Call zero_grad() before each run or in the step, or gather "
              "gradients within one step");
  }
}

void CapturedLeaves::clean_up(bool restore) {
  for (const Tensor& leaf : leaves_) {
    if (has_gradient_of_this_run(leaf)) leaf.clear_grad();
  }
  if (!restore) return;
  for (const auto& [leaf, grad] : old_gradients_) {
    if (!dropped_first_.contains(leaf.impl())) leaf.set_grad(grad);
  }
}

}  // namespace mezzo::graph
