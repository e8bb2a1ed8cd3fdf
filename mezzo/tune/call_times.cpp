#include "mezzo/tune/call_times.h"

#include <string>
#include <string_view>
#include <utility>

#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::tune {
namespace {

// `conv2d` of `conv2d#1`.
std::string without_number(const std::string& name) { return name.substr(0, name.find('#')); }

// Adds the times of kernels to the operation whose call, or whose gradient, they computed.
class CallClock final : public KernelListener, public amp::StepObserver {
 public:
  explicit CallClock(const StepCalls& calls) : calls_(calls), ms_(calls.operations.size()) {}

  void on_run(const KernelWork& /*work*/, double ms) override { pending_ += ms; }

  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const amp::ObservedStepCall& call) override {
    const double ms = std::exchange(pending_, 0);
    if (call.op.name == std::string_view("cast")) return;
    const CallId& id = call.results[0].call;
    const std::string op = id.is_backward() ? without_number(id.gradient_of) : id.op;
    if (!id.is_backward() && nn::current_module() == nullptr) return;
    const auto operation = product_or_call(calls_, id.path, op);
    if (operation.has_value()) ms_[*operation] += ms;
  }

  const std::vector<double>& ms() const { return ms_; }

 private:
  const StepCalls& calls_;
  std::vector<double> ms_;
  double pending_ = 0;
};

}  // namespace

std::vector<double> operation_times(amp::TrainStep& step, const Batch& batch,
                                    const StepCalls& calls) {
  CallClock clock(calls);
  const ListenToKernels listening(clock);
  step.probe(batch, 1, clock);
  return clock.ms();
}

}  // namespace mezzo::tune
