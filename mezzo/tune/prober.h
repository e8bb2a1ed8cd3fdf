// Probes: forward and backward passes of a step under a plan, beside exact ones.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/precision_plan.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/tune/gradient_error.h"

namespace mezzo::tune {

// Computes the gradients of a batch more exactly than f32 does, from the network's weights of now.
using ExactStep = std::function<StepGradients(const Batch& batch)>;

class Prober {
 public:
  // Computes the exact gradients of each batch: by `exact`, or if that is null by f32 with direct
  // sums. Both must outlive this object. While it exists, it alone sets the network's precision.
  Prober(amp::TrainStep& step, std::vector<Batch> batches, const ExactStep& exact);

  // The error of the gradients under a plan. If f16 is in it, the loss is multiplied by 2^16, or by
  // the largest of 2^12, 2^8, 2^4 and 1 with which all gradients are finite.
  GradientError measure(const amp::PrecisionPlan& plan);
  // The same under a level.
  GradientError measure(const amp::Policy& policy);

  // The parameters whose gradients are rounding noise in f32 already, so that no dtype can be
  // judged by them: as of a bias before a batch norm, whose true gradient is 0.
  std::vector<std::string> noise() const;
  std::size_t parameters() const { return left_out_.size(); }

 private:
  GradientError measure_now(bool is_scaled);
  GradientError measure_batch(std::size_t batch, double scale);
  void find_noise();
  StepGradients gradients_of(const Batch& batch);

  amp::TrainStep& step_;
  std::vector<Batch> batches_;
  std::vector<StepGradients> exact_;
  std::vector<bool> left_out_;
};

// Sets the precision of a network to a plan, or to a level as the baseline that a plan is compared
// with: O0 computes everything in f32.
void set_precision(nn::Module& net, const amp::PrecisionPlan& plan);
void set_precision(nn::Module& net, const amp::Policy& policy);

}  // namespace mezzo::tune
