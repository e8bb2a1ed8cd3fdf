#include "mezzo/ops/optimizer_steps.h"

#include <cmath>
#include <vector>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/flat_kernels.h"
#include "mezzo/ops/kernel_listener.h"

namespace mezzo {
namespace {

// An in-place change of f32 elements.
float* writable(const Tensor& tensor) {
  tensor.bump_version();
  return static_cast<float*>(tensor.address());
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         ((a.is_dense() && b.is_dense()) ||
          (a.is_dense(Format::kChannelsLast) && b.is_dense(Format::kChannelsLast)));
}

// Moments are f32 whatever the parameter is: in 16 bits they would stop moving as parameters do.
void check_fits(const char* op, std::size_t i, const Tensor& param, const Tensor& tensor,
                const char* name, DType dtype = DType::kF32) {
  check_arg(tensor.defined() && tensor.dtype() == dtype && same_layout(tensor, param), op, "the ",
            name, " of parameter ", i, " is ", tensor, ", it must be ", dtype,
            " and laid out like the parameter (", param, ")");
  check_arg(tensor.device() == param.device(), op, "the ", name, " of parameter ", i, " is on ",
            tensor.device(), ", the parameter on ", param.device(), ". Use to()");
}

void check_param(const char* op, std::size_t i, const Tensor& param, const Tensor& grad) {
  check_arg(param.defined() && (param.dtype() == DType::kF32 || is_lower(param.dtype())), op,
            "parameter ", i, " is ", param, ", only f32, bf16 and f16 are trained");
  check_fits(op, i, param, param, "value", param.dtype());
  const bool half_grad = grad.defined() && is_lower(param.dtype()) && grad.dtype() == param.dtype();
  check_fits(op, i, param, grad, "gradient", half_grad ? param.dtype() : DType::kF32);
}

flat::HalfBlock half_block(const char* op, std::size_t i, const Tensor& param, const Tensor& grad,
                           const HalfUpdate& half) {
  param.bump_version();
  flat::HalfBlock block{.param = param.address(),
                        .grad = grad.address(),
                        .dtype = param.dtype(),
                        .grad_dtype = grad.dtype(),
                        .rule = half.rule,
                        .random = half.random};
  if (half.rule == ParamUpdate::kMaster) {
    check_fits(op, i, param, half.master, "master copy");
  } else if (half.rule == ParamUpdate::kKahan) {
    check_fits(op, i, param, half.compensation, "compensation", param.dtype());
    half.compensation.bump_version();
    block.compensation = half.compensation.address();
  } else if (half.rule == ParamUpdate::kStochastic) {
    check_arg(half.random.offset % 4 == 0, op, "random words come in blocks of four, parameter ", i,
              " begins at ", half.random.offset);
  }
  return block;
}

// Parameter and gradient of a block, and what stands behind it if they have 16 bits.
template <class Block>
void set_param(Block& block, const char* op, std::size_t i, const Tensor& param, const Tensor& grad,
               const HalfUpdate& half) {
  block.count = param.numel();
  if (!is_lower(param.dtype())) {
    block.param = writable(param);
    block.grad = static_cast<const float*>(grad.address());
    return;
  }
  block.half = half_block(op, i, param, grad, half);
  if (half.rule == ParamUpdate::kMaster) block.param = writable(half.master);
}

// The 16-bit copies of f32 parameters that go with the update.
class Copies {
 public:
  // Before any parameter changes: parameters may be views of one block of memory, which counts the
  // changes of all.
  template <class Tensors>
  explicit Copies(std::span<const Tensors> tensors) {
    copies_.reserve(tensors.size());
    for (const Tensors& t : tensors) {
      copies_.push_back(t.param.defined() ? RenewedCopy::find(t.param) : RenewedCopy());
    }
  }
  flat::CopyBlock block(std::size_t i) const {
    if (!copies_[i]) return {};
    return {copies_[i].address(), copies_[i].dtype()};
  }
  // After all have changed.
  template <class Tensors>
  void keep(std::span<const Tensors> tensors) const {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      if (copies_[i]) copies_[i].keep(tensors[i].param);
    }
  }

 private:
  std::vector<RenewedCopy> copies_;
};

// Bytes of the parameter, read and written, of its copy and of its gradient, for one number.
double bytes_each(const flat::HalfBlock& half, const flat::CopyBlock& copy, bool has_f32) {
  const double f32 = has_f32 ? 2 * sizeof(float) : 0;
  if (half.param == nullptr) return f32 + sizeof(float) + (copy.data != nullptr ? 2 : 0);
  const double bits16 = has_f32 ? 2 : 4;  // beside a master copy it is only written
  const double compensation = half.compensation != nullptr ? 4 : 0;
  return f32 + bits16 + compensation + static_cast<double>(size_of(half.grad_dtype));
}

// `state_bytes`: of the optimizer's state for one number, read and written.
template <class Block>
KernelWork work_of(const char* op, Device device, const std::vector<Block>& blocks,
                   double state_bytes) {
  KernelWork work{.op = op, .kernel = flat::kernels_on(device).name};
  for (const Block& block : blocks) {
    work.bytes += static_cast<double>(block.count) *
                  (bytes_each(block.half, block.copy, block.param != nullptr) + state_bytes);
  }
  return work;
}

// The device of all parameters.
template <class Tensors>
Device device_of(const char* op, std::span<const Tensors> tensors) {
  const Tensor* first = nullptr;
  for (const Tensors& t : tensors) {
    if (first == nullptr && t.param.defined()) first = &t.param;
  }
  const Device device = first != nullptr ? first->device() : kCpuDevice;
  for (const Tensors& t : tensors) {
    check_arg(!t.param.defined() || t.param.device() == device, op, "parameters are on ", device,
              " and on ", t.param.device(), ". Use one optimizer for each device");
  }
  return device;
}

}  // namespace

void sgd_step(std::span<const SgdTensors> tensors, const SgdStep& step) {
  const bool with_momentum = step.momentum != 0;
  const Device device = device_of("sgd_step", tensors);
  const Copies copies(tensors);
  std::vector<flat::SgdBlock> blocks;
  blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SgdTensors& t = tensors[i];
    check_param("sgd_step", i, t.param, t.grad);
    if (with_momentum) check_fits("sgd_step", i, t.param, t.momentum, "momentum");
    flat::SgdBlock& block = blocks.emplace_back();
    set_param(block, "sgd_step", i, t.param, t.grad, t.half);
    if (with_momentum) block.momentum = writable(t.momentum);
    block.copy = copies.block(i);
    block.intake = static_cast<float>(t.first ? 1 : 1 - step.dampening);
  }
  const flat::SgdFactors factors{static_cast<float>(step.lr), static_cast<float>(step.momentum),
                                 static_cast<float>(step.weight_decay),
                                 static_cast<float>(step.inv_scale), step.nesterov};
  const double state_bytes = with_momentum ? 2 * sizeof(float) : 0;
  run_listened_on(
      device, [&] { return work_of("sgd_step", device, blocks, state_bytes); },
      [&] { flat::kernels_on(device).sgd(blocks, factors); });
  copies.keep(tensors);
}

void adam_step(std::span<const AdamTensors> tensors, const AdamStep& step) {
  const Device device = device_of("adam_step", tensors);
  const Copies copies(tensors);
  std::vector<flat::AdamBlock> blocks;
  blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AdamTensors& t = tensors[i];
    check_param("adam_step", i, t.param, t.grad);
    check_fits("adam_step", i, t.param, t.exp_avg, "first moment");
    check_fits("adam_step", i, t.param, t.exp_avg_sq, "second moment");
    check_arg(t.step >= 1, "adam_step", "steps count from 1, parameter ", i, " is at ", t.step);
    // In f64: 1 - 0.999 in f32 is off by 1e-5, the size of the correction itself late in training.
    const auto n = static_cast<double>(t.step);
    flat::AdamBlock& block = blocks.emplace_back();
    set_param(block, "adam_step", i, t.param, t.grad, t.half);
    block.exp_avg = writable(t.exp_avg);
    block.exp_avg_sq = writable(t.exp_avg_sq);
    block.copy = copies.block(i);
    block.step_size = static_cast<float>(step.lr / (1 - std::pow(step.beta1, n)));
    block.correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, n)));
  }
  flat::AdamFactors factors;
  factors.one_minus_beta1 = static_cast<float>(1 - step.beta1);
  factors.beta2 = static_cast<float>(step.beta2);
  factors.one_minus_beta2 = static_cast<float>(1 - step.beta2);
  factors.eps = static_cast<float>(step.eps);
  factors.weight_decay = static_cast<float>(step.decoupled ? 0 : step.weight_decay);
  factors.shrink = static_cast<float>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  factors.inv_scale = static_cast<float>(step.inv_scale);
  run_listened_on(
      device, [&] { return work_of("adam_step", device, blocks, 4 * sizeof(float)); },
      [&] { flat::kernels_on(device).adam(blocks, factors); });
  copies.keep(tensors);
}

void refresh_master(const Tensor& param, const Tensor& master) {
  check_arg(is_lower(param.dtype()), "refresh_master", "the parameter is ", param,
            ", only one of bf16 or f16 has a master copy");
  check_fits("refresh_master", 0, param, master, "master copy");
  flat::kernels_on(param.device())
      .refresh_master(param.address(), param.dtype(), writable(master), param.numel());
}

}  // namespace mezzo
