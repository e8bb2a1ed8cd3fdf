#include "mezzo/optim/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/own_gradients.h"

namespace mezzo::optim {
namespace {

// The gradients, undefined where there are none. A gradient that is not dense is read through a
// copy.
std::vector<Tensor> gradients_of(std::span<const Tensor> params) {
  std::vector<Tensor> grads;
  grads.reserve(params.size());
  for (const Tensor& param : params) {
    const Tensor& grad = param.grad();
    grads.push_back(grad.defined() && !grad.is_one_block() ? copy_of(grad) : grad);
  }
  return grads;
}

void check_distinct(const char* name, std::span<const Tensor> params) {
  std::vector<const TensorImpl*> sorted;
  sorted.reserve(params.size());
  for (const Tensor& param : params) sorted.push_back(param.impl());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return;
  const auto found = std::ranges::find(params, *twice, &Tensor::impl);
  fail(name, "parameter ", found - params.begin(), " (", *found,
       ") was given twice. Pass each once");
}

double clip_norm_now(std::span<const Tensor> params, double max_norm) {
  const double norm = std::sqrt(sum_of_squares(gradients_of(params), "clip_grad_norm"));
  if (std::isfinite(norm) && norm > max_norm) {
    scale_in_place(own_gradients_of(params), static_cast<float>(max_norm / norm));
  }
  return norm;
}

// Notes the change during a capture: it is applied to the gradients in each run of the step.
template <class Change>
void note_change(const char* name, std::span<const Tensor> params, const Change& change) {
  do_host_work(name, {}, params,
               [leaves = std::vector<Tensor>(params.begin(), params.end()),
                change](std::span<const Tensor>) { return change(leaves), true; });
}

}  // namespace

std::vector<Tensor> own_gradients_of(std::span<const Tensor> params) {
  for (const Tensor& param : params) {
    const Tensor& grad = param.grad();
    if (!grad.defined()) continue;
    if (!grad.is_unshared() || !grad.is_one_block()) param.set_grad(copy_of(grad));
  }
  return gradients_of(params);
}

double clip_grad_norm(std::span<const Tensor> params, double max_norm) {
  check_arg(max_norm > 0, "clip_grad_norm", "the norm must be positive: ", max_norm);
  check_distinct("clip_grad_norm", params);
  if (capture_hook() == nullptr) return clip_norm_now(params, max_norm);
  note_change("clip_grad_norm", params,
              [max_norm](std::span<const Tensor> leaves) { clip_norm_now(leaves, max_norm); });
  return std::numeric_limits<double>::quiet_NaN();
}

void clip_grad_value(std::span<const Tensor> params, double limit) {
  check_arg(limit > 0, "clip_grad_value", "the limit must be positive: ", limit);
  check_distinct("clip_grad_value", params);
  const auto clip = [limit](std::span<const Tensor> leaves) {
    clamp_in_place(own_gradients_of(leaves), static_cast<float>(limit));
  };
  if (capture_hook() == nullptr) return clip(params);
  note_change("clip_grad_value", params, clip);
}

std::optional<std::size_t> unscale_grads(std::span<const Tensor> params, double inv_scale) {
  const NoGrad guard;
  for (const Tensor& param : params) {
    const Tensor& grad = param.grad();
    if (grad.defined() && is_lower(param.dtype())) param.set_grad(cast(grad, DType::kF32));
  }
  return scale_in_place(own_gradients_of(params), static_cast<float>(inv_scale));
}

std::optional<std::size_t> first_nonfinite_grad(std::span<const Tensor> params) {
  return first_nonfinite(gradients_of(params));
}

}  // namespace mezzo::optim
