#include "mezzo/ops/update/optimizer_steps.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo {
namespace {

float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.address()); }

void count_change(const Tensor& tensor) {
  if (tensor.defined()) tensor.bump_version();
}

// Counts the changes of an update in everything that it has written.
void count_changes(const Tensor& param, const HalfUpdate& half) {
  count_change(param);
  if (!is_lower(param.dtype())) return;
  count_change(half.master);
  count_change(half.compensation);
}
void count_changes(const SgdTensors& t) {
  count_changes(t.param, t.half);
  count_change(t.momentum);
}
void count_changes(const AdamTensors& t) {
  count_changes(t.param, t.half);
  count_change(t.exp_avg);
  count_change(t.exp_avg_sq);
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         ((a.is_dense() && b.is_dense()) ||
          (a.is_dense(Format::kChannelsLast) && b.is_dense(Format::kChannelsLast)));
}

// Moments are f32 whatever the parameter is: in 16 bits they would stop moving, as parameters do.
void check_fits(const char* op, std::size_t i, const Tensor& param, const Tensor& tensor,
                const char* name, DType dtype = DType::kF32) {
  check_arg(tensor.defined() && tensor.dtype() == dtype && same_layout(tensor, param), op, "the ",
            name, " of parameter ", i, " is ", tensor, ", it must be ", dtype,
            " and laid out like the parameter (", param, "). Make one of that layout");
  check_arg(tensor.device() == param.device(), op, "the ", name, " of parameter ", i, " is on ",
            tensor.device(), ", the parameter on ", param.device(), ". Use to()");
}

void check_param(const char* op, std::size_t i, const Tensor& param, const Tensor& grad) {
  check_arg(param.defined() && (param.dtype() == DType::kF32 || is_lower(param.dtype())), op,
            "parameter ", i, " is ", param,
            ", only f32, bf16 and f16 are trained. Leave it out, or cast it");
  check_fits(op, i, param, param, "value", param.dtype());
  const bool half_grad = grad.defined() && is_lower(param.dtype()) && grad.dtype() == param.dtype();
  check_fits(op, i, param, grad, "gradient", half_grad ? param.dtype() : DType::kF32);
}

flat::HalfBlock half_block(const char* op, std::size_t i, const Tensor& param, const Tensor& grad,
                           const HalfUpdate& half) {
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
    block.compensation = half.compensation.address();
  } else if (half.rule == ParamUpdate::kStochastic) {
    check_arg(half.random.offset % 4 == 0, op, "random words come in blocks of four, parameter ", i,
              " begins at ", half.random.offset, ". Use a multiple of 4");
  }
  return block;
}

// The copies of f32 parameters that the update renews. They must be found before any parameter
// changes, because parameters may be views of one block of memory, which counts the changes of all.
template <class Tensors>
std::vector<RenewedCopy> find_copies(std::span<const Tensors> tensors) {
  std::vector<RenewedCopy> copies;
  copies.reserve(tensors.size());
  for (const Tensors& t : tensors) {
    copies.push_back(t.param.defined() ? RenewedCopy::find(t.param) : RenewedCopy());
  }
  return copies;
}

flat::CopyBlock copy_block(const RenewedCopy& copy) {
  if (!copy) return {};
  return {copy.address(), copy.dtype(), copy.packed()};
}

// After an update: counts the changes, and keeps the copies that were renewed.
template <class Tensors>
void keep_all(std::span<const Tensors> tensors, std::span<const RenewedCopy> copies) {
  for (const Tensors& t : tensors) count_changes(t);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (copies[i]) copies[i].keep(tensors[i].param);
  }
}

// Bytes of the copies per element.
double bytes_each(const flat::CopyBlock& copy) {
  double bytes = copy.data != nullptr ? 2 : 0;
  for (const Ref<PackedCopy>& packed : copy.packed) {
    bytes += static_cast<double>(packed->element_bytes());
  }
  return bytes;
}

// Bytes per element of the parameter, read and written, of its copies and of its gradient.
double bytes_each(const flat::HalfBlock& half, const flat::CopyBlock& copy, bool has_f32) {
  const double f32 = has_f32 ? 2 * sizeof(float) : 0;
  if (half.param == nullptr) return f32 + sizeof(float) + bytes_each(copy);
  const double bits16 = has_f32 ? 2 : 4;  // with a master copy it is only written
  const double compensation = half.compensation != nullptr ? 4 : 0;
  return f32 + bits16 + compensation + static_cast<double>(size_of(half.grad_dtype));
}

// The device of all parameters, which must be the same.
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

// The data of an update for the kernels.
template <class Block, class Factors>
struct Update {
  std::vector<Block> blocks;
  Factors factors;
  std::vector<PendingRows> rows{};  // rows of gradients that are computed as they are used
  double state_bytes;               // bytes of the optimizer's state per element, read and written
};

// Sets parameter and gradient of the last block, and the additional data of 16-bit parameters. A
// pending gradient is left to the kernel, unless there are packed copies: those are written in
// patches, which need not match rows of the gradient.
template <class Update>
void set_param(Update& update, const char* op, std::size_t i, const Tensor& param,
               const Tensor& grad, const HalfUpdate& half) {
  auto& block = update.blocks.back();
  block.count = param.numel();
  if (is_lower(param.dtype())) {
    block.half = half_block(op, i, param, grad, half);
    if (half.rule == ParamUpdate::kMaster) block.param = floats(half.master);
    return;
  }
  block.param = floats(param);
  if (block.copy.packed.count == 0) {
    PendingRows pending = pending_rows(grad);
    block.rows = pending.rows.get();
    if (block.rows != nullptr) update.rows.push_back(std::move(pending));
  }
  if (block.rows == nullptr) block.grad = static_cast<const float*>(grad.address());
}

template <class Update>
KernelWork work_of(const char* op, Device device, const Update& update) {
  KernelWork work{.op = op, .kernel = flat::kernels_on(device).name};
  for (const auto& block : update.blocks) {
    const double grad_bytes = block.rows != nullptr ? sizeof(float) : 0;  // not read
    work.bytes += static_cast<double>(block.count) *
                  (bytes_each(block.half, block.copy, block.param != nullptr) + update.state_bytes -
                   grad_bytes);
  }
  for (const PendingRows& gradient : update.rows) {
    work.kernel = Switch::kGradRows.data();
    work.dtype = gradient.dtype;
    work.flops += gradient.flops;
    work.bytes += gradient.bytes;
  }
  return work;
}

Update<flat::SgdBlock, flat::SgdFactors> update_of(std::span<const SgdTensors> tensors,
                                                   const SgdStep& step,
                                                   std::span<const RenewedCopy> copies) {
  const bool with_momentum = step.momentum != 0;
  Update<flat::SgdBlock, flat::SgdFactors> update;
  update.blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SgdTensors& t = tensors[i];
    check_param("sgd_step", i, t.param, t.grad);
    if (with_momentum) check_fits("sgd_step", i, t.param, t.momentum, "momentum");
    flat::SgdBlock& block = update.blocks.emplace_back();
    block.copy = copy_block(copies[i]);
    set_param(update, "sgd_step", i, t.param, t.grad, t.half);
    if (with_momentum) block.momentum = floats(t.momentum);
    block.intake = static_cast<float>(t.first ? 1 : 1 - step.dampening);
  }
  update.factors = {.lr = static_cast<float>(step.lr),
                    .momentum = static_cast<float>(step.momentum),
                    .weight_decay = static_cast<float>(step.weight_decay),
                    .inv_scale = static_cast<float>(step.inv_scale),
                    .nesterov = step.nesterov};
  update.state_bytes = with_momentum ? 2 * sizeof(float) : 0;
  return update;
}

Update<flat::AdamBlock, flat::AdamFactors> update_of(std::span<const AdamTensors> tensors,
                                                     const AdamStep& step,
                                                     std::span<const RenewedCopy> copies) {
  Update<flat::AdamBlock, flat::AdamFactors> update;
  update.blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AdamTensors& t = tensors[i];
    check_param("adam_step", i, t.param, t.grad);
    check_fits("adam_step", i, t.param, t.exp_avg, "first moment");
    check_fits("adam_step", i, t.param, t.exp_avg_sq, "second moment");
    check_arg(t.step >= 1, "adam_step", "steps count from 1, parameter ", i, " is at ", t.step,
              ". Begin with 1");
    // In f64: 1 - 0.999 in f32 is off by 1e-5, which is the size of the correction itself late in
    // training.
    const auto n = static_cast<double>(t.step);
    flat::AdamBlock& block = update.blocks.emplace_back();
    block.copy = copy_block(copies[i]);
    set_param(update, "adam_step", i, t.param, t.grad, t.half);
    block.exp_avg = floats(t.exp_avg);
    block.exp_avg_sq = floats(t.exp_avg_sq);
    block.step_size = static_cast<float>(step.lr / (1 - std::pow(step.beta1, n)));
    block.correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, n)));
  }
  flat::AdamFactors& factors = update.factors;
  factors.from_grad = step.beta1 <= 0.5;
  factors.way = static_cast<float>(factors.from_grad ? step.beta1 : 1 - step.beta1);
  factors.beta2 = static_cast<float>(step.beta2);
  factors.one_minus_beta2 = static_cast<float>(1 - step.beta2);
  factors.eps = static_cast<float>(step.eps);
  factors.least = flat::least_moment(step.eps);
  factors.weight_decay = static_cast<float>(step.decoupled ? 0 : step.weight_decay);
  factors.shrink = static_cast<float>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  factors.inv_scale = static_cast<float>(step.inv_scale);
  update.state_bytes = 4 * sizeof(float);
  return update;
}

// Types and kernels of each update rule.
template <class Tensors>
struct Rule;
template <>
struct Rule<SgdTensors> {
  using Block = flat::SgdBlock;
  using Factors = flat::SgdFactors;
  static constexpr const char* kName = "sgd_step";
  static constexpr auto kKernel = &flat::Kernels::sgd;
  static constexpr auto kGatedKernel = &flat::Kernels::sgd_if;
};
template <>
struct Rule<AdamTensors> {
  using Block = flat::AdamBlock;
  using Factors = flat::AdamFactors;
  static constexpr const char* kName = "adam_step";
  static constexpr auto kKernel = &flat::Kernels::adam;
  static constexpr auto kGatedKernel = &flat::Kernels::adam_if;
};

// Runs a whole update.
template <class Tensors, class Step>
void run_step(std::span<const Tensors> tensors, const Step& step) {
  const char* op = Rule<Tensors>::kName;
  const Device device = device_of(op, tensors);
  const std::vector<RenewedCopy> copies = find_copies(tensors);
  const auto update = update_of(tensors, step, copies);
  run_listened_on(
      device, [&] { return work_of(op, device, update); },
      [&] { (flat::kernels_on(device).*Rule<Tensors>::kKernel)(update.blocks, update.factors); });
  keep_all(tensors, std::span<const RenewedCopy>(copies));
}

// The offset of the blocks in a list, after the factors.
template <class Tensors>
inline constexpr std::size_t kUpdateBlocksAt = (sizeof(typename Rule<Tensors>::Factors) +
                                                alignof(typename Rule<Tensors>::Block) - 1) /
                                               alignof(typename Rule<Tensors>::Block) *
                                               alignof(typename Rule<Tensors>::Block);

template <class Tensors>
std::size_t list_bytes(std::size_t params) {
  return kUpdateBlocksAt<Tensors> + params * sizeof(typename Rule<Tensors>::Block);
}

}  // namespace

void sgd_step(std::span<const SgdTensors> tensors, const SgdStep& step) { run_step(tensors, step); }
void adam_step(std::span<const AdamTensors> tensors, const AdamStep& step) {
  run_step(tensors, step);
}

template <class Tensors, class Step>
QueuedUpdate<Tensors, Step>::QueuedUpdate(std::size_t params, Device device)
    : list_(empty({static_cast<std::int64_t>(list_bytes<Tensors>(params))}, DType::kU8,
                  Format::kContiguous, device)) {}

template <class Tensors, class Step>
void QueuedUpdate<Tensors, Step>::put(std::span<const Tensors> tensors, const Step& step) {
  const char* op = Rule<Tensors>::kName;
  const Device device = list_.device();
  drop();
  const std::size_t bytes = list_bytes<Tensors>(tensors.size());
  check_arg(bytes <= list_.bytes(), op, "there is no room for ", tensors.size(),
            " parameters. Make a queue for as many");
  check_arg(tensors.empty() || device_of(op, tensors) == device, op, "the update is queued on ",
            device, ", parameters are elsewhere. Use to()");
  copies_ = find_copies(tensors);
  // Pending gradients are computed here: the list holds only their addresses.
  for (const Tensors& t : tensors) {
    if (t.grad.defined()) t.grad.address();
  }
  const auto update = update_of(tensors, step, copies_);
  std::vector<std::byte> list(bytes);
  std::memcpy(list.data(), &update.factors, sizeof(update.factors));
  std::memcpy(list.data() + kUpdateBlocksAt<Tensors>, update.blocks.data(),
              bytes - kUpdateBlocksAt<Tensors>);
  copy_bytes(list_.address(), device, list.data(), kCpuDevice, bytes);
  moved_bytes_ = work_of(op, device, update).bytes;
  tensors_.assign(tensors.begin(), tensors.end());
  count_ = tensors.size();
}

template <class Tensors, class Step>
void QueuedUpdate<Tensors, Step>::queue(const UpdateConditions& conditions) const {
  using Block = typename Rule<Tensors>::Block;
  using Factors = typename Rule<Tensors>::Factors;
  const Device device = list_.device();
  const auto* bytes = static_cast<const std::byte*>(list_.address());
  const auto& [flags, squares, max_norm] = conditions;
  flat::Gate gate;
  if (flags.defined()) {
    gate = {static_cast<const std::int32_t*>(flags.address()),
            static_cast<std::size_t>(flags.numel())};
  }
  flat::Clip clip;
  if (squares.defined()) clip = {static_cast<const double*>(squares.address()), max_norm};
  const flat::Listed<Block> blocks{reinterpret_cast<const Block*>(bytes + kUpdateBlocksAt<Tensors>),
                                   count_};
  // With a closed gate nothing moves. On a device, the host does not know whether it is closed.
  const auto describe = [&] {
    const bool is_done = !device.is_cpu() || flat::is_open_on_host(gate);
    return KernelWork{.op = Rule<Tensors>::kName,
                      .kernel = flat::kernels_on(device).name,
                      .bytes = is_done ? moved_bytes_ : 0};
  };
  run_listened_on(device, describe, [&] {
    (flat::kernels_on(device).*Rule<Tensors>::kGatedKernel)(
        device, gate, clip, blocks, reinterpret_cast<const Factors*>(bytes));
  });
}

template <class Tensors, class Step>
void QueuedUpdate<Tensors, Step>::keep() {
  keep_all(std::span<const Tensors>(tensors_), std::span<const RenewedCopy>(copies_));
  drop();
}

template <class Tensors, class Step>
void QueuedUpdate<Tensors, Step>::drop() {
  tensors_.clear();
  copies_.clear();
}

template class QueuedUpdate<SgdTensors, SgdStep>;
template class QueuedUpdate<AdamTensors, AdamStep>;

void refresh_master(const Tensor& param, const Tensor& master) {
  check_arg(is_lower(param.dtype()), "refresh_master", "the parameter is ", param,
            ", only one of bf16 or f16 has a master copy. Leave it out");
  check_fits("refresh_master", 0, param, master, "master copy");
  flat::kernels_on(param.device())
      .refresh_master(param.address(), param.dtype(), floats(master), param.numel());
  master.bump_version();
}

}  // namespace mezzo
