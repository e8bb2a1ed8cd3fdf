#include "mezzo/amp/names/grad_manager.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::amp {
namespace {

bool is_attached(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return std::ranges::any_of(tensors, [&](const Tensor& t) { return t.impl() == tensor.impl(); });
}

// The recordings of this thread, in the order in which they began. Each must end after those that
// began later, because it restores the previous mode.
struct Open {
  const GradManager* manager;  // null once it has been released
  std::unique_ptr<GradMode> mode;
};
thread_local std::vector<Open> open_recordings;

}  // namespace

GradManager& GradManager::attach(std::span<const Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_arg(tensors[i].defined() && can_have_gradients(tensors[i].dtype()), "grad_manager",
              "tensor ", i, " cannot have a gradient. Attach floating-point tensors");
  }
  for (Tensor tensor : tensors) {
    if (is_attached(tensors_, tensor)) continue;
    if (!tensor.requires_grad()) tensor.set_requires_grad(true);
    tensors_.push_back(tensor);
  }
  return *this;
}

void GradManager::record() {
  check_arg(!is_recording(), "grad_manager",
            "record() was called twice. Call release() or backward() in between");
  open_recordings.push_back({this, std::make_unique<GradMode>(true)});
  is_recording_ = true;
}

void GradManager::release() {
  if (!std::exchange(is_recording_, false)) return;
  const auto mine = std::ranges::find(open_recordings, this, &Open::manager);
  if (mine != open_recordings.end()) mine->manager = nullptr;
  while (!open_recordings.empty() && open_recordings.back().manager == nullptr) {
    open_recordings.pop_back();
  }
}

void GradManager::backward(const Tensor& y, const Tensor& dy) {
  backward(std::span(&y, 1), std::span(&dy, 1));
}

void GradManager::backward(std::span<const Tensor> ys, std::span<const Tensor> dys) {
  check_arg(is_recording(), "grad_manager",
            "backward() without a recording. Call record() before the forward pass");
  // Also releases after an exception: the recording is of no more use then.
  struct Release {
    GradManager& manager;
    ~Release() { manager.release(); }
  } const release{*this};
  std::vector<Tensor> grads = grad(ys, tensors_, dys, {.f32_sums = true});
  const NoGrad guard;
  // Gradients are f32, whatever precision a surrounding region has for sums.
  const NoAutocast outside;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) add_to_grad(tensors_[i], std::move(grads[i]));
  }
}

}  // namespace mezzo::amp
