#include "mezzo/train/step.h"

#include <chrono>
#include <utility>

#include "mezzo/amp/autocast.h"

namespace mezzo::train {
namespace {

class Stopwatch {
 public:
  // Milliseconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Tensor forward(nn::Module& net, const Tensor& input, const amp::Policy& policy) {
  const amp::Autocast region(policy);
  return net(input).astype(DType::kF32);
}

TrainStep::TrainStep(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
                     amp::GradScaler& scaler, const amp::Policy& policy)
    : net_(net), loss_(std::move(loss)), optimizer_(optimizer), scaler_(scaler), policy_(policy) {}

StepReport TrainStep::operator()(const Tensor& input, const Tensor& labels) {
  StepReport report;
  Stopwatch watch;
  const Tensor loss = loss_(forward(net_, input, policy_), labels);
  report.forward_ms = watch.lap();
  report.scale = scaler_.get_scale();
  scaler_.scale(loss).backward();
  report.backward_ms = watch.lap();
  const amp::StepResult result = scaler_.step(optimizer_);
  scaler_.update();
  optimizer_.zero_grad();
  report.found_inf = result.found_inf;
  report.skipped = !result.stepped;
  report.loss = loss.item();
  report.update_ms = watch.lap();
  return report;
}

}  // namespace mezzo::train
