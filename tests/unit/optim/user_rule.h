// An optimizer as a program outside of the library writes it: signSGD with momentum, as a function
// of pieces.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

struct SignumOptions {
  LearningRate lr = 0.01;
  double momentum = 0.9;
  ParamUpdate param_update = ParamUpdate::kMaster;
};

inline void signum(const RulePiece& piece) {
  const float lr = piece.factors[0];
  const float momentum = piece.factors[1];
  for (std::size_t i = 0; i < piece.param.size(); ++i) {
    float& gathered = piece.slots[0][i];
    gathered = std::fma(momentum, gathered, piece.grad[i]);
    piece.param[i] -= gathered == 0 ? 0 : std::copysign(lr, gathered);
  }
}

inline const UpdateRule kSignum{
    .name = "signum", .slots = 1, .slot_names = {"momentum"}, .function = signum};

class Signum final : public RuleOptimizer {
 public:
  explicit Signum(std::vector<Tensor> params, SignumOptions options = {})
      : RuleOptimizer("Signum", kSignum), options_(std::move(options)) {
    add_group(params, options_.lr, options_.param_update);
  }

 private:
  GroupRule rule_of(std::size_t group) const override {
    const std::array factors{static_cast<float>(lr(group)), static_cast<float>(options_.momentum)};
    return {&kSignum, Factors(factors)};
  }

  SignumOptions options_;
};

}  // namespace mezzo::optim
