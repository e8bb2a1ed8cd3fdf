#include "mezzo/ops/optimizer_steps.h"

#include <cmath>
#include <vector>

#include "mezzo/ops/flat_kernels.h"

namespace mezzo {
namespace {

// Moments and updates are f32: a bf16 parameter stops moving when the update falls below 1/512 of
// it, which is where most updates of a trained network lie.
void check_fits(const char* op, std::size_t i, const Tensor& param, const Tensor& tensor,
                const char* name) {
  check_arg(tensor.defined() && tensor.dtype() == DType::kF32 && tensor.shape() == param.shape() &&
                ((tensor.is_dense() && param.is_dense()) ||
                 (tensor.is_dense(Format::kChannelsLast) && param.is_dense(Format::kChannelsLast))),
            op, "the ", name, " of parameter ", i, " is ", tensor,
            ", it must be f32 and laid out like the parameter (", param, ")");
}

}  // namespace

void sgd_step(std::span<const SgdTensors> tensors, const SgdStep& step) {
  const bool with_momentum = step.momentum != 0;
  std::vector<flat::SgdBlock> blocks;
  blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SgdTensors& t = tensors[i];
    check_fits("sgd_step", i, t.param, t.param, "value");
    check_fits("sgd_step", i, t.param, t.grad, "gradient");
    if (with_momentum) check_fits("sgd_step", i, t.param, t.momentum, "momentum");
    blocks.push_back({t.param.mutable_data<float>(), t.grad.data<float>(),
                      with_momentum ? t.momentum.mutable_data<float>() : nullptr, t.param.numel(),
                      static_cast<float>(t.first ? 1 : 1 - step.dampening)});
  }
  flat::sgd(blocks, {static_cast<float>(step.lr), static_cast<float>(step.momentum),
                     static_cast<float>(step.weight_decay), static_cast<float>(step.inv_scale),
                     step.nesterov});
}

void adam_step(std::span<const AdamTensors> tensors, const AdamStep& step) {
  std::vector<flat::AdamBlock> blocks;
  blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AdamTensors& t = tensors[i];
    check_fits("adam_step", i, t.param, t.param, "value");
    check_fits("adam_step", i, t.param, t.grad, "gradient");
    check_fits("adam_step", i, t.param, t.exp_avg, "first moment");
    check_fits("adam_step", i, t.param, t.exp_avg_sq, "second moment");
    check_arg(t.step >= 1, "adam_step", "steps count from 1, parameter ", i, " is at ", t.step);
    // In f64: 1 - 0.999 in f32 is off by 1e-5, the size of the correction itself late in training.
    const auto n = static_cast<double>(t.step);
    blocks.push_back({t.param.mutable_data<float>(), t.grad.data<float>(),
                      t.exp_avg.mutable_data<float>(), t.exp_avg_sq.mutable_data<float>(),
                      t.param.numel(), static_cast<float>(step.lr / (1 - std::pow(step.beta1, n))),
                      static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, n)))});
  }
  flat::AdamFactors factors;
  factors.one_minus_beta1 = static_cast<float>(1 - step.beta1);
  factors.beta2 = static_cast<float>(step.beta2);
  factors.one_minus_beta2 = static_cast<float>(1 - step.beta2);
  factors.eps = static_cast<float>(step.eps);
  factors.weight_decay = static_cast<float>(step.decoupled ? 0 : step.weight_decay);
  factors.shrink = static_cast<float>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  factors.inv_scale = static_cast<float>(step.inv_scale);
  flat::adam(blocks, factors);
}

}  // namespace mezzo
