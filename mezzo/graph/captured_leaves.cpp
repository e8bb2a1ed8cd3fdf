#include "mezzo/graph/captured_leaves.h"

#include <algorithm>
#include <iterator>

#include "mezzo/amp/autocast.h"
#include "mezzo/graph/placeholder.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::graph {
namespace {

bool has_gradient_of_this_run(const Tensor& leaf) {
  return leaf.grad().defined() && placeholder_of(leaf.grad()) != nullptr;
}

// True for a result of the step that only its leaf holds. A tensor that exists between runs, such
// as the 1 that a backward pass begins with, would be changed for later runs, too.
bool is_own(const Tensor& grad) {
  return placeholder_of(grad) != nullptr && grad.is_unshared() && grad.is_one_block();
}

// Returns false if the leaf is in the list already.
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

int CapturedLeaves::made_by_step() const {
  std::set<const Storage*> storages;
  for (const Tensor& leaf : leaves_) {
    if (placeholder_of(leaf) != nullptr) storages.insert(leaf.storage().get());
  }
  return static_cast<int>(storages.size());
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

void CapturedLeaves::separate(std::span<const Tensor> changed) {
  const NoGrad guard;
  const amp::NoAutocast outside;
  for (const Tensor& leaf : changed) {
    if (!leaf.grad().defined() || is_own(leaf.grad())) continue;
    leaf.set_grad(affine(leaf.grad().detach(), 1, -0.0));  // a copy: adding -0.0 changes no value
  }
}

void CapturedLeaves::check_not_from_before(const Storage* used) const {
  for (const auto& [leaf, grad] : old_gradients_) {
    check_arg(grad.storage().get() != used, "capture", "the step uses the gradient that ", leaf,
              " has from before. Call zero_grad() before each run or in the step, or accumulate "
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
