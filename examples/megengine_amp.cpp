// Mixed precision as MegEngine's guide shows it, for a ResNet-18 on images of 224 x 224. It shows
// autocast as a region, a wrapper and a switch, and gradient scaling with a GradManager,
// automatically and by hand.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

const amp::Policy f16{.lower = DType::kF16};

void show_autocast(nn::Module& net, const Tensor& images) {
  const NoGrad no_grad;
  {
    const amp::Autocast region(DType::kF16);
    std::printf("in a region:    %s\n", name_of(net(images).dtype()));
  }

  const auto forward = amp::autocast(f16, [&net](const Tensor& x) { return net(x); });
  std::printf("as a wrapper:   %s\n", name_of(forward(images).dtype()));

  amp::enable_autocast(f16);
  std::printf("switched on:    %s\n", name_of(net(images).dtype()));
  amp::disable_autocast();
  std::printf("switched off:   %s\n", name_of(net(images).dtype()));
}

// The scaler does everything: it scales, unscales and adapts.
Tensor automatic_step(nn::Module& net, amp::GradManager& manager, amp::GradScaler& scaler,
                      const data::Batch& batch) {
  const amp::Autocast region(DType::kF16);
  const amp::GradManager::Recording recording(manager);
  const Tensor loss = cross_entropy(net(batch.images), batch.labels);
  scaler.backward(manager, loss);
  return loss.detach();
}

// Does the same in three calls, between which the unscaled gradients can be changed.
Tensor manual_step(nn::Module& net, amp::GradManager& manager, amp::GradScaler& scaler,
                   const data::Batch& batch) {
  const amp::Autocast region(DType::kF16);
  Tensor loss;
  {
    const amp::GradManager::Recording recording(manager);
    loss = cross_entropy(net(batch.images), batch.labels);
    manager.backward(loss, full({}, scaler.scale_factor()));
  }
  scaler.unscale(manager.attached_tensors());
  optim::clip_grad_norm(manager.attached_tensors(), 5);
  scaler.update();
  return loss.detach();
}

}  // namespace

int main() {
  manual_seed(1);
  // To load weights from a file:
  // net->load_state(io::read_safetensors("resnet18.safetensors").tensors).
  const auto net = models::create("resnet18", {.num_classes = 1000, .image_size = 224});
  const data::Batch batch{.images = randn({1, 3, 224, 224}), .labels = zeros({1}, DType::kI64)};
  show_autocast(*net, batch.images);

  amp::GradManager manager;
  manager.attach(net->parameters());
  optim::Sgd optimizer(net->parameters(), {.lr = 0.01});
  amp::GradScaler scaler(amp::loss_scale_preset("megengine"));
  for (int step = 1; step <= 4; ++step) {
    const bool is_automatic = step % 2 == 1;
    const Tensor loss = is_automatic ? automatic_step(*net, manager, scaler, batch)
                                     : manual_step(*net, manager, scaler, batch);
    optimizer.step();
    optimizer.zero_grad();
    std::printf("step %d, %-9s loss %.4f, scale %.0f\n", step,
                is_automatic ? "automatic" : "manual", loss.item(), scaler.scale_factor());
  }
}
