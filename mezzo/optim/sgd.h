// Stochastic gradient descent with momentum.
#pragma once

#include <deque>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

struct SgdOptions {
  LearningRate lr = 0.01;
  double momentum = 0;
  double dampening = 0;     // fraction of the gradient that the momentum leaves out
  double weight_decay = 0;  // times the parameter, added to the gradient
  bool nesterov = false;    // requires momentum and no dampening
  ParamUpdate param_update = ParamUpdate::kMaster;  // for 16-bit parameters
};

// SGD, like torch.optim.SGD: see sgd_step() in mezzo/ops/update/optimizer_steps.h for the rule.
// State: `momentum.<parameter>`, from the first step with a gradient on. Optimizer describes the
// counters and 16-bit parameters.
class Sgd final : public Optimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(), for
  // negative or infinite rates, momentum and decays, and for Nesterov momentum without momentum or
  // with dampening.
  explicit Sgd(std::vector<Tensor> params, SgdOptions options = {});
  explicit Sgd(const std::vector<Group<SgdOptions>>& groups);
  // Adds a group after the others. Their state stays, and an array of learning rates is read from
  // the current position of the others. Throws what the constructors throw, before anything has
  // changed. Training steps and graphs are captured again; results of compile() are refused.
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
