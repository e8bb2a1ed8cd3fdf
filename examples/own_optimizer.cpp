// An optimizer of one's own: what a step does to an element, and how much state that takes.
// Captured steps, 16-bit parameters, loss scales and checkpoints come with it.
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/mezzo.h"

namespace {

// Yogi: Zaheer et al., "Adaptive methods for nonconvex optimization", NeurIPS 2018. The second
// moment moves towards the square of the gradient by an amount that does not depend on how far away
// it is. Without correction of the bias.
//   exp_avg    = beta1 * exp_avg + (1 - beta1) * g
//   exp_avg_sq = exp_avg_sq - (1 - beta2) * sign(exp_avg_sq - g * g) * g * g
//   param     -= lr * exp_avg / (sqrt(exp_avg_sq) + eps)
void yogi_step(const mezzo::RulePiece& piece) {
  const float lr = piece.factors[0];
  const float beta1 = piece.factors[1];
  const float beta2 = piece.factors[2];
  const float eps = piece.factors[3];
  for (std::size_t i = 0; i < piece.param.size(); ++i) {
    const float g = piece.grad[i];
    float& exp_avg = piece.slots[0][i];
    float& exp_avg_sq = piece.slots[1][i];
    exp_avg = beta1 * exp_avg + (1 - beta1) * g;
    const float square = g * g;
    exp_avg_sq += (1 - beta2) * (square > exp_avg_sq ? square : -square);
    piece.param[i] -= lr * exp_avg / (std::sqrt(exp_avg_sq) + eps);
  }
}

const mezzo::UpdateRule kYogi{.name = "yogi_step",
                              .slots = 2,
                              .slot_names = {"exp_avg", "exp_avg_sq"},
                              .function = yogi_step};

class Yogi final : public mezzo::optim::RuleOptimizer {
 public:
  Yogi(const std::vector<mezzo::Tensor>& params, double lr) : RuleOptimizer("Yogi", kYogi) {
    add_group(params, lr, mezzo::optim::ParamUpdate::kMaster);
  }

 private:
  GroupRule rule_of(std::size_t group) const override {
    const std::array factors{static_cast<float>(lr(group)), 0.9F, 0.999F, 1e-3F};
    return {&kYogi, Factors(factors)};
  }
};

}  // namespace

int main() {
  using namespace mezzo;
  manual_seed(1);
  nn::Sequential net(std::make_unique<nn::Linear>(2, 16), std::make_unique<nn::ReLU>(),
                     std::make_unique<nn::Linear>(16, 2));
  // Parameters in bf16 with f32 master copies, which the optimizer keeps.
  amp::half_parameters(net, DType::kBf16);
  Yogi optimizer(net.parameters(), 0.01);
  const auto loss_of = [](const Tensor& output, const Tensor& labels) {
    return cross_entropy(output, labels);
  };
  amp::TrainStep step(net, loss_of, optimizer, amp::GradScaler({}, /*enabled=*/false));
  step.set_execution(graph::captured(net));

  // Points are told apart by the sign of the product of their coordinates.
  double loss = 0;
  for (int i = 0; i < 300; ++i) {
    const Tensor points = randn({64, 2});
    const std::vector<float> values = points.to_vector<float>();
    std::vector<std::int64_t> labels;
    for (std::size_t k = 0; k < values.size(); k += 2)
      labels.push_back(values[k] * values[k + 1] > 0 ? 1 : 0);
    loss = step(points, from_values(std::span<const std::int64_t>(labels), {64})).loss;
    if (i % 100 == 0) std::printf("step %3d, loss %.3f\n", i, loss);
  }
  std::printf("at the end, loss %.3f\n", loss);
  return loss < 0.4 ? 0 : 1;
}
