// The gradients of leaves while host work of a captured step reads and changes them.
#include <algorithm>
#include <set>
#include <utility>

#include "mezzo/core/storage.h"
#include "mezzo/graph/executable.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::graph {
namespace {

// The same elements under a new handle that nobody else has.
Tensor own_handle(const Tensor& tensor) {
  Ref<Storage> place = make_ref<Storage>(tensor.address(), tensor.bytes(), tensor.device(),
                                         Ref<RefCounted>(tensor.storage().get()));
  return Tensor(
      make_ref<TensorImpl>(std::move(place), 0, tensor.shape(), tensor.strides(), tensor.dtype()));
}

}  // namespace

// Finds gradients that host work gets and that later calls read, directly or through views.
void Executable::find_read_gradients() {
  std::set<ValueId> read;
  auto instruction = instructions_.rbegin();
  for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
    const bool has_instruction = instruction != instructions_.rend() && instruction->node == &*node;
    if (node->is_host()) {
      for (std::size_t i = node->inputs.size() - node->leaves.size(); i < node->inputs.size();
           ++i) {
        if (read.contains(node->inputs[i])) instruction->read_by_calls.push_back(node->inputs[i]);
      }
    } else {
      read.insert(node->inputs.begin(), node->inputs.end());
    }
    if (has_instruction) ++instruction;
  }
}

// Work that changes gradients in place copies those that somebody else holds. During the capture,
// gradients to be changed got a value of their own (CapturedLeaves::separate()). So in the arena
// each gets the only handle to its memory, as after a backward pass. Gradients outside of the arena
// do not.
void Executable::lend_gradients(const Instruction& instruction) const {
  const Node& node = *instruction.node;
  const std::size_t first = node.inputs.size() - node.leaves.size();
  for (std::size_t i = 0; i < node.leaves.size(); ++i) {
    const ValueId value = node.inputs[first + i];
    const Tensor& grad = *instruction.inputs[first + i];
    const bool is_own = value != kNoValue && memory_.homes[value] == Home::kArena;
    node.leaves[i].set_grad(is_own && !node.is_queued() ? own_handle(grad) : grad);
  }
}

// Host work may have replaced a gradient by another tensor: later readers, including views, must
// see the new one.
void Executable::keep_gradient(const Instruction& instruction, ValueId value, const Tensor& grad) {
  // Nothing later reads a gradient that its readers compute, and gradients outside of the arena
  // belong to work that does not change them.
  if (memory_.homes[value] == Home::kReaders || memory_.homes[value] == Home::kOutside) return;
  const Tensor& before = slots_[value];
  if (before.defined() && grad.address() == before.address() &&
      ValueSpec::of(grad) == program_.spec(value)) {
    before.bump_version();
    return;
  }
  const bool is_alike = ValueSpec::of(grad) == program_.spec(value);
  const bool is_read = std::ranges::count(instruction.read_by_calls, value) > 0;
  check_arg(is_alike || !is_read, kOp, instruction.node->host, " made a gradient ", grad,
            ", but calls after it were captured for ", program_.spec(value).dtype,
            program_.spec(value).shape, ". Keep the dtype, or make those calls host work, too");
  if (is_alike && is_lasting(value)) {
    const NoGrad guard;
    convert_into(grad, homes_[value]);
    slots_[value] = homes_[value];
  } else {
    slots_[value] = grad;
  }
}

}  // namespace mezzo::graph
