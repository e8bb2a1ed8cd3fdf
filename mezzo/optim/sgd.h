// Stochastic gradient descent with momentum.
#pragma once

#include <deque>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

struct SgdOptions {
  LearningRate lr = 0.01;
  double momentum = 0;
  double dampening = 0;     // how much of the gradient the momentum leaves out
  double weight_decay = 0;  // added to the gradient, times the parameter
  bool nesterov = false;    // needs momentum and no dampening
  ParamUpdate param_update = ParamUpdate::kMaster;  // of 16-bit parameters
};

// torch.optim.SGD: see sgd_step() in mezzo/ops/update/optimizer_steps.h for the rule.
// State: `momentum.<parameter>`, from the first step with a gradient on, and what Optimizer says of
// counters and 16-bit parameters.
class Sgd final : public Optimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(),
  // negative or infinite rates, momentum and decays, and Nesterov momentum without momentum or with
  // dampening.
  explicit Sgd(std::vector<Tensor> params, SgdOptions options = {});
  explicit Sgd(const std::vector<Group<SgdOptions>>& groups);
  // One more group, behind the others; their state stays, and an array of learning rates is read
  // from the place that the others are at. Throws what the constructors throw, before anything has
  // changed. Training steps and graphs are captured anew; what compile() captured is refused.
  void add_group(const Group<SgdOptions>& group);

  std::vector<NamedTensor> state() const override;
  std::vector<NamedCounter> counters() const override;
  void set_state(std::string_view name, const Tensor& tensor) override;
  void set_counter(std::string_view name, std::int64_t value) override;
  void clear_state() override;

 private:
  void update(std::size_t group, const std::vector<Active>& active, double inv_scale,
              UpdateQueue* queue) override;

  std::vector<SgdOptions> options_;
  std::deque<Tensor> momentum_;
};

}  // namespace mezzo::optim
