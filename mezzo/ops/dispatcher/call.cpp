#include "mezzo/ops/dispatcher/call.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/allocation_label.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo {
namespace {

thread_local PrecisionHook* current_hook = nullptr;
thread_local CallListener* current_listener = nullptr;
thread_local CaptureHook* current_capture = nullptr;
thread_local bool recording = true;
thread_local bool doing_host_work = true;

// The device that all inputs are on. Differing devices are an error: an implicit copy in a loop
// would hide that most of the time goes into copying.
Device common_device(const OpDef& op, Inputs inputs) {
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->defined()) continue;
    if (first == nullptr) first = inputs[i];
    check_arg(inputs[i]->device() == first->device(), op.name,
              "inputs are on different devices: ", *first, " on ", first->device(), ", input ", i,
              " (", *inputs[i], ") on ", inputs[i]->device(), ". Use to()");
  }
  return first != nullptr ? first->device() : kCpuDevice;
}

// Before promotion, which would make f32 of such an input. Views read nothing.
void check_no_eight_bits(const OpDef& op, Inputs inputs) {
  if (op.takes_eight_bits || op.view != nullptr) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    check_arg(!input.defined() || !is_eight_bit(input.dtype()), op.name, "input ", i, " is ", input,
              ", whose numbers mean nothing without a scale. Use scaled_matmul(), or cast() it");
  }
}

bool can_hold(const Tensor& tensor, const TensorSpec& spec) {
  return tensor.defined() && tensor.shape() == spec.shape && tensor.dtype() == spec.dtype &&
         tensor.is_dense(spec.format) && tensor.is_unshared();
}

Outputs run(const OpDef& op, Inputs inputs, const Attrs& attrs, Inputs over) {
  Infer infer(op.name, inputs, attrs);
  op.infer(infer);
  const Device device = common_device(op, inputs);
  Outputs outputs(infer.outputs().size());
  if (current_capture != nullptr) [[unlikely]] {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = current_capture->make_result(infer.outputs()[i], device);
    }
    return outputs;
  }
  bool is_empty = true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorSpec& spec = infer.outputs()[i];
    if (i < over.size() && over[i] != nullptr && can_hold(*over[i], spec)) {
      outputs[i] = alias(*over[i], spec.shape, over[i]->strides(), over[i]->offset());
    } else {
      outputs[i] = empty(spec.shape, spec.dtype, spec.format, device);
    }
    is_empty = is_empty && spec.shape.numel() == 0;
  }
  if (!is_empty) run_kernel(op, inputs, outputs.view(), attrs);
  return outputs;
}

}  // namespace

Operands::Operands(Inputs inputs) {
  if (inputs.size() <= kInline) {
    inputs_ = {pointers_.data(), inputs.size()};
    replaced_ = {owned_.data(), inputs.size()};
  } else {
    more_pointers_.resize(inputs.size());
    more_owned_.resize(inputs.size());
    inputs_ = more_pointers_;
    replaced_ = more_owned_;
  }
  std::copy(inputs.begin(), inputs.end(), inputs_.begin());
}

void Operands::replace(std::size_t i, Tensor tensor) {
  replaced_[i] = std::move(tensor);
  inputs_[i] = &replaced_[i];
}

void promote_inputs(const OpDef& op, Operands& operands) {
  if (op.promote == 0) return;
  DType common = DType::kBool;
  bool differ = false;
  bool first = true;
  const auto takes_part = [&](std::size_t i) {
    return has_bit(op.promote, i) && operands[i].defined();
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!takes_part(i)) continue;
    const DType dtype = operands[i].dtype();
    differ = differ || (!first && dtype != common);
    common = first ? dtype : promote(common, dtype);
    first = false;
  }
  if (!differ) return;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (takes_part(i) && operands[i].dtype() != common) {
      operands.replace(i, operands[i].astype(common));
    }
  }
}

PrecisionHook* precision_hook() { return current_hook; }
void set_precision_hook(PrecisionHook* hook) { current_hook = hook; }
WithoutPrecisionHook::WithoutPrecisionHook() : scope_(current_hook, nullptr) {}

ListenToCalls::ListenToCalls(CallListener& listener) : scope_(current_listener, &listener) {}
WithoutCallListener::WithoutCallListener() : scope_(current_listener, nullptr) {}
CallListener* call_listener() { return current_listener; }

CaptureHook* capture_hook() { return current_capture; }
void set_capture_hook(CaptureHook* hook) { current_capture = hook; }

void zero_grad(std::span<const Tensor> leaves) {
  if (current_capture != nullptr) current_capture->on_zero_grad(leaves);
  for (const Tensor& leaf : leaves) leaf.clear_grad();
}

bool does_host_work() { return doing_host_work; }
WithoutHostWork::WithoutHostWork() : scope_(doing_host_work, false) {}

bool grad_enabled() { return recording; }
GradMode::GradMode(bool enabled) : scope_(recording, enabled) {}

namespace {

void prepare(const OpDef& op, Operands& operands) {
  if (current_capture != nullptr && current_capture->decides_precision()) [[unlikely]] {
    current_capture->prepare(op, operands);
  } else if (current_hook != nullptr) {
    PrecisionHook* hook = current_hook;
    const WithoutPrecisionHook guard;
    hook->prepare(op, operands);
  }
}

Outputs call_any(const OpDef& op, Inputs inputs, const Attrs& attrs, Inputs over) {
  check_no_eight_bits(op, inputs);
  Operands operands(inputs);
  prepare(op, operands);
  promote_inputs(op, operands);
  Outputs outputs(1);
  if (op.view != nullptr) {
    outputs[0] = op.view(operands[0], attrs);
  } else {
    const AllocationLabel label(op.name);
    // A listener reads the inputs after the call, so they are not overwritten.
    outputs = run(op, operands.view(), attrs, current_listener == nullptr ? over : Inputs());
  }
  // Recorded first: a capture and a listener name the call by its node.
  if (should_record(op, operands.view())) record(op, attrs, operands.view(), outputs.view());
  if (current_capture != nullptr) [[unlikely]] {
    current_capture->on_call({op, operands.view(), attrs, outputs.view()}, over);
  }
  if (current_listener != nullptr) [[unlikely]] {
    current_listener->on_finished({op, operands.view(), attrs, outputs.view()});
  }
  return outputs;
}

// An operand that overlaps the destination would be read after it was changed, in an order that
// depends on the kernel and its threads. The destination itself may be an operand, element by
// element.
void check_no_overlap(const OpDef& op, Inputs inputs, const Tensor& destination) {
  if (destination.numel() == 0) return;
  for (std::size_t i = 0; i < destination.rank(); ++i) {
    check_arg(destination.strides()[i] != 0 || destination.shape()[i] == 1, op.name,
              "the destination, ", destination,
              ", has one element at several indices. Change a copy of it");
  }
  for (const Tensor* input : inputs) {
    check_arg(!input->defined() || !may_overlap(*input, destination), op.name, "the operand ",
              *input, " is another view of the memory that is changed. Pass a copy of it");
  }
}

}  // namespace

Outputs call(const OpDef& op, Inputs inputs, const Attrs& attrs) {
  return call_any(op, inputs, attrs, {});
}

Outputs call_over(const OpDef& op, std::initializer_list<const Tensor*> inputs, const Attrs& attrs,
                  std::initializer_list<const Tensor*> over) {
  return call_any(op, {inputs.begin(), inputs.size()}, attrs, {over.begin(), over.size()});
}

Outputs call_over(const OpDef& op, Inputs inputs, const Attrs& attrs, Inputs over) {
  return call_any(op, inputs, attrs, over);
}

void call_into(const OpDef& op, std::initializer_list<const Tensor*> inputs, const Attrs& attrs,
               const Tensor& destination) {
  check_arg(!recording || !destination.requires_grad(), op.name,
            "a tensor that takes part in differentiation cannot be changed in place. Use the "
            "operation that returns a new tensor, or wrap the change in NoGrad");
  const WithoutPrecisionHook guard;
  Operands operands(Inputs(inputs.begin(), inputs.size()));
  check_no_eight_bits(op, operands.view());
  prepare(op, operands);
  promote_inputs(op, operands);
  check_no_overlap(op, operands.view(), destination);
  Infer infer(op.name, operands.view(), attrs);
  op.infer(infer);
  const TensorSpec& spec = infer.outputs()[0];
  check_arg(common_device(op, operands.view()) == destination.device(), op.name,
            "the inputs are on ", common_device(op, operands.view()), ", the destination on ",
            destination.device(), ". Use to()");
  check_arg(spec.shape == destination.shape() && spec.dtype == destination.dtype(), op.name,
            "the result is ", spec.dtype, spec.shape, ", the destination ", destination,
            ". Change a tensor of the result's dtype and shape");
  destination.storage()->fill_held_copies();
  Tensor output = destination;
  if (current_capture != nullptr) [[unlikely]] {
    current_capture->on_change({op, operands.view(), attrs, {&output, 1}});
  } else if (destination.numel() > 0) {
    run_kernel(op, operands.view(), std::span<Tensor>(&output, 1), attrs);
  }
  destination.bump_version();
  if (current_listener != nullptr) [[unlikely]] {
    current_listener->on_changed({op, operands.view(), attrs, {&output, 1}});
  }
}

}  // namespace mezzo
