// Optimizer steps in parts, each for some of the parameters.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// step() of optimizers for some of their parameters at a time. An update can then follow each
// gradient instead of waiting for the last one, with the same bits.
//
//   parts.begin(inv_scale);
//   parts.step(params);  // until all parameters that have a gradient were there
//   parts.finish();
//
// Parameters are numbered over all optimizers. After an exception, the parameters of earlier parts
// stay updated; the step is then not counted, and another one can begin.
class StepInParts {
 public:
  // The optimizers must outlive it.
  explicit StepInParts(const std::vector<Optimizer*>& optimizers);

  // False with stochastic rounding, which draws its random numbers parameter by parameter, and if a
  // gradient would be refused: step() reports that before anything has changed.
  static bool fits(const Optimizer& optimizer);

  // The parameters of all optimizers, and the state that they have so far.
  std::vector<Tensor> params() const;
  std::vector<Tensor> state() const;

  void begin(double inv_scale = 1);
  void step(std::span<const std::size_t> params);
  // Counts the steps. Returns for each optimizer whether one of its parameters had a gradient.
  std::vector<bool> finish();

 private:
  struct Part {
    Optimizer* optimizer;
    std::size_t first;  // first of its parameters
    std::size_t count;  // number of its parameters
    Optimizer::ActiveGroups done;
  };

  void step_one(Part& part, std::span<const std::size_t> params) const;

  std::vector<Part> parts_;
  double inv_scale_ = 1;
};

}  // namespace mezzo::optim
