// Two networks that train against each other, in f16, each with its own optimizer and loss scale. A
// generator learns to make points on a ring, and a critic learns to tell them from real ones.
#include <cmath>
#include <cstdio>
#include <numbers>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kNoise = 8;  // random inputs per generated point

// f32 [kBatch, 2]: points near a ring of radius 1.
Tensor real_points() {
  const Tensor random = rand({kBatch, 2});
  Tensor points = zeros({kBatch, 2});
  auto* point = points.mutable_data<float>();
  for (const float* x = random.data<float>(); point < points.data<float>() + points.numel();
       x += 2, point += 2) {
    const float angle = 2 * std::numbers::pi_v<float> * x[0];
    const float radius = 1 + 0.1F * (x[1] - 0.5F);
    point[0] = radius * std::cos(angle);
    point[1] = radius * std::sin(angle);
  }
  return points;
}

// Three linear layers with leaky ReLU between them.
void fill(nn::Sequential& net, std::int64_t in, std::int64_t out) {
  net.emplace<nn::Linear>(in, 64);
  net.emplace<nn::LeakyReLU>(0.2);
  net.emplace<nn::Linear>(64, 64);
  net.emplace<nn::LeakyReLU>(0.2);
  net.emplace<nn::Linear>(64, out);
}

// The loss of the critic's output for points, against the output that is wanted.
Tensor loss_of(nn::Module& critic, const Tensor& points, float wanted) {
  return binary_cross_entropy_with_logits(critic(points), full({points.size(0), 1}, wanted));
}

// A step of one network: backward, and an update unless a gradient overflowed f16.
void step(const Tensor& loss, amp::GradScaler& scaler, optim::Optimizer& optimizer) {
  scaler.scale(loss).backward();
  scaler.step(optimizer);
  scaler.update();
}

}  // namespace

int main() {
  manual_seed(1);
  nn::Sequential generator;
  nn::Sequential critic;
  fill(generator, kNoise, 2);
  fill(critic, 2, 1);
  optim::Adam generator_adam(generator.parameters(), {.lr = 1e-3, .beta1 = 0.5});
  optim::Adam critic_adam(critic.parameters(), {.lr = 1e-3, .beta1 = 0.5});
  amp::GradScaler generator_scaler;
  amp::GradScaler critic_scaler;

  for (int i = 1; i <= 600; ++i) {
    const amp::Autocast region(DType::kF16);
    const Tensor made = generator(randn({kBatch, kNoise}));

    // The critic: real points are 1, made ones 0. detach() keeps the generator out of this step.
    critic.zero_grad();
    step(loss_of(critic, real_points(), 1) + loss_of(critic, made.detach(), 0), critic_scaler,
         critic_adam);

    // The generator: its points should pass for real. The critic gets gradients, too, and drops
    // them before its next step.
    generator.zero_grad();
    const Tensor loss = loss_of(critic, made, 1);
    step(loss, generator_scaler, generator_adam);
    if (i % 200 != 0) continue;

    double radius = 0;
    const auto points = made.astype(DType::kF32).to_vector<float>();
    for (std::size_t k = 0; k < points.size(); k += 2) {
      radius += std::hypot(points[k], points[k + 1]) / kBatch;
    }
    std::printf("step %d: loss of the generator %.3f, mean radius %.3f, scales %.0f and %.0f\n", i,
                loss.item(), radius, generator_scaler.get_scale(), critic_scaler.get_scale());
  }
}
