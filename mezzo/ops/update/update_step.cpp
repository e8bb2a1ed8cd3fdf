#include "mezzo/ops/update/update_step.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/math.h"
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
void count_changes(const UpdateTensors& t) {
  count_changes(t.param, t.half);
  for (const Tensor& slot : t.slots) count_change(slot);
  for (const Tensor& scales : t.scales) count_change(scales);
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         ((a.is_dense() && b.is_dense()) ||
          (a.is_dense(Format::kChannelsLast) && b.is_dense(Format::kChannelsLast)));
}

// Moments are f32 whatever the parameter is, unless a rule is asked to round them at random:
// rounded to nearest in 16 bits they would stop moving, as parameters do.
void check_fits(const char* op, std::size_t i, const Tensor& param, const Tensor& tensor,
                const char* name, DType dtype = DType::kF32) {
  check_arg(tensor.defined() && tensor.dtype() == dtype && same_layout(tensor, param), op, "the ",
            name, " of parameter ", i, " is ", tensor, ", it must be ", dtype,
            " and laid out like the parameter (", param, "). Create it with that layout");
  check_arg(tensor.device() == param.device(), op, "the ", name, " of parameter ", i, " is on ",
            tensor.device(), ", the parameter on ", param.device(), ". Use to()");
}

void check_param(const char* op, std::size_t i, const Tensor& param, const Tensor& grad) {
  check_arg(param.defined() && is_trainable(param.dtype()), op, "parameter ", i, " is ", param,
            ", only ", trainable_dtypes("and"), " are trained. Leave it out, or cast it");
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

// The copies of f32 parameters that go with the update. To be found before any parameter
// changes: parameters may be views of one block of memory, which counts the changes of all.
std::vector<RenewedCopy> find_copies(std::span<const UpdateTensors> tensors) {
  std::vector<RenewedCopy> copies;
  copies.reserve(tensors.size());
  for (const UpdateTensors& t : tensors) {
    copies.push_back(t.param.defined() ? RenewedCopy::find(t.param) : RenewedCopy());
  }
  return copies;
}

flat::CopyBlock copy_block(const RenewedCopy& copy) {
  if (!copy) return {};
  return {copy.address(), copy.dtype(), copy.packed()};
}

// After an update: counts what has changed, and keeps the copies that have changed with it.
void keep_all(std::span<const UpdateTensors> tensors, std::span<const RenewedCopy> copies) {
  for (const UpdateTensors& t : tensors) count_changes(t);
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

// The device of all parameters.
Device device_of(const char* op, std::span<const UpdateTensors> tensors) {
  const Tensor* first = nullptr;
  for (const UpdateTensors& t : tensors) {
    if (first == nullptr && t.param.defined()) first = &t.param;
  }
  const Device device = first != nullptr ? first->device() : kCpuDevice;
  for (const UpdateTensors& t : tensors) {
    check_arg(!t.param.defined() || t.param.device() == device, op, "parameters are on ", device,
              " and on ", t.param.device(), ". Use one optimizer for each device");
  }
  return device;
}

void check_scales(const char* op, std::size_t i, const Tensor& param, const Tensor& scales) {
  const std::int64_t count = scales_of(param.numel());
  check_arg(scales.defined() && scales.dtype() == DType::kF32 && scales.is_dense() &&
                scales.numel() == count && scales.device() == param.device(),
            op, "the scales of the e4m3 state of parameter ", i, " (", param, ") are ", scales,
            ", there must be ", count, " f32 numbers beside it. Create as many");
}

// State of the last block, of which all slots have one dtype.
void set_state(flat::UpdateBlock& block, const UpdateRule& rule, std::size_t i,
               const UpdateTensors& t) {
  if (rule.slots == 0) return;
  const DType dtype = t.slots[0].defined() ? t.slots[0].dtype() : DType::kF32;
  check_arg(can_hold_state(dtype), rule.name, "the state of parameter ", i, " is ", dtype,
            ". Keep it in ", kStateDTypes);
  for (std::size_t k = 0; k < rule.slots; ++k) {
    check_fits(rule.name, i, t.param, t.slots[k], rule.slot_names[k], dtype);
    if (dtype == DType::kF32) {
      block.slots[k] = floats(t.slots[k]);
      continue;
    }
    block.state.slots[k] = t.slots[k].address();
    if (dtype != DType::kE4m3) continue;
    check_scales(rule.name, i, t.param, t.scales[k]);
    block.state.scales[k] = floats(t.scales[k]);
  }
  if (dtype == DType::kF32) return;
  check_arg(t.state_random.offset % 4 == 0, rule.name,
            "random words come in blocks of four, those of the state of parameter ", i,
            " begin at ", t.state_random.offset, ". Use a multiple of 4");
  block.state.dtype = dtype;
  block.state.squares = rule.squares;
  block.state.random = t.state_random;
  block.state.words = t.state_words > 0 ? t.state_words : state_words(t.param.numel());
}

// Bytes of one element's state, read and written.
double state_bytes(const UpdateRule& rule, const flat::NarrowState& state) {
  const double scale = state.dtype == DType::kE4m3 ? 4.0 / kStateBlock : 0;
  return static_cast<double>(rule.slots) * 2 * (static_cast<double>(size_of(state.dtype)) + scale);
}

// What kernels get of an update.
struct Update {
  std::vector<flat::UpdateBlock> blocks;
  flat::UpdateFactors factors;
  std::vector<PendingRows> rows{};  // of gradients that are computed as they are used
  const UpdateRule* rule = nullptr;
};

// Parameter and gradient of the last block, and what stands behind it if they have 16 bits. A
// gradient that nobody has computed yet is left to the kernel, unless there are packed copies:
// those are written by parts that rows of the gradient need not fit.
void set_param(Update& update, const char* op, std::size_t i, const UpdateTensors& tensors) {
  const Tensor& param = tensors.param;
  const Tensor& grad = tensors.grad;
  const HalfUpdate& half = tensors.half;
  flat::UpdateBlock& block = update.blocks.back();
  block.count = param.numel();
  if (is_lower(param.dtype())) {
    block.half = half_block(op, i, param, grad, half);
    if (half.rule == ParamUpdate::kMaster) block.param = floats(half.master);
    return;
  }
  block.param = floats(param);
  // Narrow state is read in blocks, which rows of a gradient need not fit either.
  if (block.copy.packed.count == 0 && !block.state) {
    PendingRows pending = pending_rows(grad);
    block.rows = pending.rows.get();
    if (block.rows != nullptr) update.rows.push_back(std::move(pending));
  }
  if (block.rows == nullptr) block.grad = static_cast<const float*>(grad.address());
}

KernelWork work_of(const char* op, Device device, const Update& update) {
  KernelWork work{.op = op, .kernel = flat::kernels_on(device).name};
  for (const auto& block : update.blocks) {
    const double grad_bytes = block.rows != nullptr ? sizeof(float) : 0;  // not read
    work.bytes += static_cast<double>(block.count) *
                  (bytes_each(block.half, block.copy, block.param != nullptr) +
                   state_bytes(*update.rule, block.state) - grad_bytes);
  }
  for (const PendingRows& gradient : update.rows) {
    work.kernel = Switch::kGradRows.data();
    work.dtype = gradient.dtype;
    work.flops += gradient.flops;
    work.bytes += gradient.bytes;
  }
  return work;
}

Update update_of(std::span<const UpdateTensors> tensors, const UpdateStep& step,
                 std::span<const RenewedCopy> copies) {
  const UpdateRule& rule = *step.rule;
  Update update;
  update.blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const UpdateTensors& t = tensors[i];
    check_param(rule.name, i, t.param, t.grad);
    flat::UpdateBlock& block = update.blocks.emplace_back();
    block.copy = copy_block(copies[i]);
    set_state(block, rule, i, t);
    set_param(update, rule.name, i, t);
    block.own = t.own;
  }
  update.factors = {.rule = step.factors, .inv_scale = static_cast<float>(step.inv_scale)};
  update.rule = &rule;
  return update;
}

void check_device(const UpdateRule& rule, Device device) {
  if (rule.function == nullptr || device.is_cpu()) return;
  fail<UnsupportedError>(
      rule.name, "its rule is a function, which runs only on the CPU; parameters are on ", device,
      ". Use an optimizer of the library there, or move the network to the CPU");
}

// Where the blocks of a list begin: behind the factors.
constexpr std::size_t kUpdateBlocksAt =
    round_up(sizeof(flat::UpdateFactors), alignof(flat::UpdateBlock));

std::size_t list_bytes(std::size_t params) {
  return kUpdateBlocksAt + params * sizeof(flat::UpdateBlock);
}

}  // namespace

void update_step(std::span<const UpdateTensors> tensors, const UpdateStep& step) {
  const UpdateRule& rule = *step.rule;
  const Device device = device_of(rule.name, tensors);
  check_device(rule, device);
  const std::vector<RenewedCopy> copies = find_copies(tensors);
  const Update update = update_of(tensors, step, copies);
  run_listened_on(
      device, [&] { return work_of(rule.name, device, update); },
      [&] { flat::kernels_on(device).update(rule, update.blocks, update.factors); });
  keep_all(tensors, copies);
}

QueuedUpdate::QueuedUpdate(std::size_t params, Device device)
    : list_(empty({static_cast<std::int64_t>(list_bytes(params))}, DType::kU8, Format::kContiguous,
                  device)) {}

void QueuedUpdate::put(std::span<const UpdateTensors> tensors, const UpdateStep& step) {
  const char* op = step.rule->name;
  const Device device = list_.device();
  drop();
  const std::size_t bytes = list_bytes(tensors.size());
  check_arg(bytes <= list_.bytes(), op, "there is no room for ", tensors.size(),
            " parameters. Create a queue for as many");
  check_arg(tensors.empty() || device_of(op, tensors) == device, op, "the update is queued on ",
            device, ", parameters are elsewhere. Use to()");
  check_device(*step.rule, device);
  copies_ = find_copies(tensors);
  // Gradients are computed here if nobody has: the list holds no more than their addresses.
  for (const UpdateTensors& t : tensors) {
    if (t.grad.defined()) t.grad.address();
  }
  const Update update = update_of(tensors, step, copies_);
  std::vector<std::byte> list(bytes);
  std::memcpy(list.data(), &update.factors, sizeof(update.factors));
  std::memcpy(list.data() + kUpdateBlocksAt, update.blocks.data(), bytes - kUpdateBlocksAt);
  copy_bytes(list_.address(), device, list.data(), kCpuDevice, bytes);
  moved_bytes_ = work_of(op, device, update).bytes;
  tensors_.assign(tensors.begin(), tensors.end());
  count_ = tensors.size();
  rule_ = step.rule;
}

void QueuedUpdate::queue(const UpdateConditions& conditions) const {
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
  const flat::Listed<flat::UpdateBlock> blocks{
      reinterpret_cast<const flat::UpdateBlock*>(bytes + kUpdateBlocksAt), count_};
  // A closed gate moves nothing; on a card, nobody knows here whether it is.
  const auto describe = [&] {
    const bool is_done = !device.is_cpu() || flat::is_open_on_host(gate);
    return KernelWork{.op = rule_->name,
                      .kernel = flat::kernels_on(device).name,
                      .bytes = is_done ? moved_bytes_ : 0};
  };
  run_listened_on(device, describe, [&] {
    flat::kernels_on(device).update_if(*rule_, device, {gate, clip}, blocks,
                                       reinterpret_cast<const flat::UpdateFactors*>(bytes));
  });
}

void QueuedUpdate::keep() {
  keep_all(tensors_, copies_);
  drop();
}

void QueuedUpdate::drop() {
  tensors_.clear();
  copies_.clear();
}

void refresh_master(const Tensor& param, const Tensor& master) {
  check_arg(is_lower(param.dtype()), "refresh_master", "the parameter is ", param, ", only one of ",
            lower_dtypes(), " has a master copy. Leave it out");
  check_fits("refresh_master", 0, param, master, "master copy");
  flat::kernels_on(param.device())
      .refresh_master(param.address(), param.dtype(), floats(master), param.numel());
  master.bump_version();
}

}  // namespace mezzo
