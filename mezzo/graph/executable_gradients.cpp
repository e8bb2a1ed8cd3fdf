// The gradients of leaves while host work of a captured step sees and changes them.
#include <algorithm>
#include <set>
#include <utility>

#include "mezzo/core/storage.h"
#include "mezzo/graph/executable.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::graph {
namespace {

// The same elements under a handle that nobody else has.
Tensor own_handle(const Tensor& tensor) {
  Ref<Storage> place = make_ref<Storage>(tensor.address(), tensor.bytes(), tensor.device(),
                                         Ref<RefCounted>(tensor.storage().get()));
  return Tensor(
      make_ref<TensorImpl>(std::move(place), 0, tensor.shape(), tensor.strides(), tensor.dtype()));
}

}  // namespace

// The gradients that host work gets and calls behind it read, themselves or views of them.
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

// What changes gradients in place copies those that somebody else has, too. The capture has given
// those that are changed a value of their own (CapturedLeaves::separate()), so that in the arena
// each is the only handle of its memory, as it is behind a backward pass. What lies outside is not.
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

// Host work may have put another tensor in the place of a gradient: what reads that later, views of
// it too, shall see it.
void Executable::keep_gradient(const Instruction& instruction, ValueId value, const Tensor& grad) {
  // Nobody reads the first behind this, and of the second no work that changes gradients has any.
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
            ", and calls behind it were captured for ", program_.spec(value).dtype,
            program_.spec(value).shape, ". Have it keep the dtype, or make them host work, too");
  if (is_alike && is_lasting(value)) {
    const NoGrad guard;
    convert_into(grad, homes_[value]);
    slots_[value] = homes_[value];
  } else {
    slots_[value] = grad;
  }
}

}  // namespace mezzo::graph
