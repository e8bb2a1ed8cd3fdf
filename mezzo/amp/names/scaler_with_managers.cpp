// GradScaler with MindSpore's and MegEngine's managers: its members that take one.
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/names/grad_manager.h"
#include "mezzo/amp/names/loss_scale_manager.h"

namespace mezzo::amp {

GradScaler::GradScaler(const LossScaleManager& manager)
    : state_(manager.scales() ? manager.state()
                              : std::make_shared<LossScaleState>(LossScaleOptions{})),
      enabled_(manager.scales()),
      checks_(manager.get_drop_overflow_update()) {}

std::optional<std::size_t> GradScaler::backward(GradManager& manager, const Tensor& loss,
                                                const Tensor& dy, bool unscale_grad,
                                                std::optional<bool> update_scale) {
  return backward(manager, std::span(&loss, 1), std::span(&dy, 1), unscale_grad, update_scale);
}

std::optional<std::size_t> GradScaler::backward(GradManager& manager,
                                                std::span<const Tensor> losses,
                                                std::span<const Tensor> dys, bool unscale_grad,
                                                std::optional<bool> update_scale) {
  // Checked before gradients are added to those that are divided already.
  if (unscale_grad) check_not_unscaled(manager.attached_tensors());
  // Scales losses rather than dys, so that it happens in f32 for a 16-bit loss, too.
  std::vector<Tensor> wide(dys.begin(), dys.end());
  for (Tensor& dy : wide) {
    if (enabled_ && dy.defined()) dy = dy.astype(DType::kF32);
  }
  manager.backward(scale(losses), wide);
  std::optional<std::size_t> bad;
  if (unscale_grad) bad = unscale(manager.attached_tensors());
  if (update_scale.value_or(unscale_grad)) update();
  return bad;
}

}  // namespace mezzo::amp
