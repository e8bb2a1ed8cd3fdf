#include "mezzo/ops/dispatcher/node.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo {
namespace {

std::atomic<std::uint64_t> sequences{1};

// Protects what nodes have saved. record() reads what the nodes of its inputs have saved, and may
// make one of them give up its result. Meanwhile other threads may record calls that read the same
// tensors, or walk the graph.
std::mutex saved_mutex;

// The nodes that are being destroyed on this thread. Without this queue a long tape would be
// destroyed by recursion, with one stack frame per operation.
struct Graveyard {
  std::vector<Ref<Node>> waiting;
  bool active = false;
};
thread_local Graveyard graveyard;

constinit thread_local const Node* differentiated = nullptr;

}  // namespace

Node::Node(const OpDef& op, const Attrs& attrs, std::size_t inputs, std::size_t outputs)
    : op_(op),
      attrs_(attrs),
      sequence_(sequences.fetch_add(1, std::memory_order_relaxed)),
      input_count_(inputs),
      output_count_(outputs),
      inputs_(std::make_unique<NodeInput[]>(inputs)) {}

Node::~Node() {
  for (NodeInput& input : inputs()) {
    // A saved input also holds its producer; release both through the same queue.
    if (input.node) graveyard.waiting.push_back(std::exchange(input.node, nullptr));
    input.saved = Tensor();
  }
  context_ = nullptr;  // it may hold inputs, too
  if (graveyard.active) return;
  graveyard.active = true;
  while (!graveyard.waiting.empty()) {
    const Ref<Node> node = std::move(graveyard.waiting.back());
    graveyard.waiting.pop_back();
  }
  graveyard.active = false;
}

const Node* differentiated_node() { return differentiated; }
Differentiating::Differentiating(const Node& node) : scope_(differentiated, &node) {}

std::uint64_t next_sequence() { return sequences.load(std::memory_order_relaxed); }

void Node::release_saved() {
  const std::lock_guard lock(saved_mutex);
  released_ = true;
  context_ = nullptr;
  for (NodeInput& input : inputs()) input.saved = Tensor();
  for (NodeOutput& output : outputs()) output.saved = Tensor();
}

bool should_record(const OpDef& op, Inputs inputs) {
  if (!grad_enabled() || op.backward == nullptr) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
    return input->defined() && input->requires_grad();
  });
}

namespace {

bool is_kept(const NodeInput& input) {
  return input.node && input.node->outputs()[input.output].is_kept;
}

// Whether nothing that the node has saved was changed in place since.
bool is_as_saved(Node& node) {
  const auto is_same = [](const auto& place) {
    return !place.saved.defined() || place.saved.version() == place.version;
  };
  return std::ranges::all_of(node.inputs(), is_same) &&
         std::ranges::all_of(node.outputs(), is_same);
}

// A recomputable form of the tensor that does not keep its elements; undefined if there is none.
Tensor computed_again(const NodeInput& input, const Tensor& tensor) {
  if (!input.node || input.output != 0 || input.node->op().again == nullptr) return {};
  Node& node = *input.node;
  // After an in-place change of the result or of its inputs, recomputing would give other values.
  if (tensor.version() != node.outputs()[0].version || !is_as_saved(node)) return {};
  return node.op().again(node);
}

// Saves an input if the definition says so.
void save_input(const OpDef& op, std::size_t i, NodeInput& input, const Tensor& tensor) {
  if (!has_bit(op.saves.inputs | op.saves.if_kept, i)) return;
  const std::lock_guard lock(saved_mutex);
  if (!has_bit(op.saves.inputs, i) && !is_kept(input)) return;
  const Tensor again = has_bit(op.saves.again, i) ? computed_again(input, tensor) : Tensor();
  if (!again.defined() && input.node) input.node->outputs()[input.output].is_kept = true;
  input.saved = again.defined() ? again : tensor;
  input.version = input.saved.version();
}

// A tensor without history as output `output` of a node.
Tensor as_output_of(Node& node, std::uint32_t output, const Tensor& saved) {
  const Tensor tensor = saved.detach();
  AutogradMeta& meta = tensor.require_autograd_meta();
  meta.node = Ref<RefCounted>(&node);
  meta.output = output;
  return tensor;
}

}  // namespace

void record(const OpDef& op, const Attrs& attrs, Inputs inputs, std::span<Tensor> outputs,
            Ref<RefCounted> context) {
  const Ref<Node> node = make_ref<Node>(op, attrs, inputs.size(), outputs.size());
  node->set_context(std::move(context));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = *inputs[i];
    if (!tensor.defined()) continue;
    NodeInput& input = node->inputs()[i];
    input.present = true;
    input.shape = tensor.shape();
    input.format = tensor.format();
    input.dtype = tensor.dtype();
    const AutogradMeta* meta = tensor.autograd_meta();
    if (meta != nullptr && has_bit(op.grad_inputs, i)) {
      if (meta->node) {
        input.node = Ref<Node>(static_cast<Node*>(meta->node.get()));
        input.output = meta->output;
      } else if (meta->requires_grad) {
        input.leaf = tensor.impl_ref();
      }
    }
    save_input(op, i, input, tensor);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& tensor = outputs[i];
    NodeOutput& output = node->outputs()[i];
    output.spec = {tensor.shape(), tensor.dtype(), tensor.format()};
    output.version = tensor.version();
    output.is_kept = (op.saves.outputs >> i & 1U) != 0;
    if (output.is_kept) output.saved = tensor.detach();
    // Differentiation ends at integers: a gradient of labels would have no meaning.
    if ((op.grad_outputs >> i & 1U) == 0 || !can_have_gradients(tensor.dtype())) continue;
    AutogradMeta& meta = tensor.require_autograd_meta();
    meta.node = Ref<RefCounted>(node.get());
    meta.output = static_cast<std::uint32_t>(i);
  }
}

namespace {

void check_not_released(const Node& node, bool has_all) {
  check_arg(!node.is_released() && has_all, node.op().name,
            "backward() was already called through this graph and has freed what it saved. "
            "Pass retain_graph = true to the first call, or detach() what the second graph takes "
            "over from the first");
}

void check_version(const Node& node, const Tensor& tensor, std::uint64_t version, const char* what,
                   std::size_t i) {
  check_not_released(node, tensor.defined());
  const LazyContents* lazy = tensor.storage()->lazy_contents();
  const bool stale = lazy != nullptr && !tensor.storage()->is_materialized() && !lazy->is_current();
  check_arg(tensor.version() == version && !stale, node.op().name, what, " ", i, " (", tensor,
            ") is needed for the gradient, but was changed in place since the forward pass. "
            "Change a copy, or change it after backward()");
}

}  // namespace

Backward::Backward(Node& node, std::span<Tensor> grad_outputs, std::span<Tensor> grad_inputs,
                   Mode mode)
    : node_(node), grad_outputs_(grad_outputs), grad_inputs_(grad_inputs), mode_(mode) {}

Tensor Backward::input(std::size_t i) const {
  const NodeInput& input = node_.inputs()[i];
  check_version(node_, input.saved, input.version, "input", i);
  // A recomputable tensor has no history of its own.
  const bool has_history = input.saved.autograd_meta() != nullptr || !input.node;
  if (!mode_.create_graph || has_history) return input.saved;
  return as_output_of(*input.node, input.output, input.saved);
}

Tensor Backward::output(std::size_t i) const {
  const NodeOutput& output = node_.outputs()[i];
  check_version(node_, output.saved, output.version, "output", i);
  return as_output(i, output.saved);
}

Tensor Backward::as_output(std::size_t i, const Tensor& kept) const {
  return mode_.create_graph ? as_output_of(node_, static_cast<std::uint32_t>(i), kept) : kept;
}

void Backward::check_unchanged(const Tensor& kept, std::uint64_t version, const char* what,
                               std::size_t number) const {
  check_version(node_, kept, version, what, number);
}

Tensor Backward::output_if_kept(std::size_t i) const {
  const std::lock_guard lock(saved_mutex);
  return node_.outputs()[i].saved.defined() ? output(i) : Tensor();
}

RefCounted& Backward::context() const {
  check_not_released(node_, node_.context() != nullptr);
  return *node_.context();
}

Tensor Backward::take_grad(std::size_t i) { return std::exchange(grad_outputs_[i], Tensor()); }

Tensor Backward::take_other_grad() {
  return std::exchange(node_.outputs()[0].other_grad, Tensor());
}

Tensor Backward::take_input(std::size_t i) {
  Tensor tensor = input(i);
  if (mode_.retain_graph) return tensor;
  const std::lock_guard lock(saved_mutex);
  node_.inputs()[i].saved = Tensor();
  return tensor;
}

std::size_t Backward::inputs() const { return node_.inputs().size(); }
bool Backward::has_input(std::size_t i) const { return i < inputs() && node_.inputs()[i].present; }
Format Backward::input_format(std::size_t i) const { return node_.inputs()[i].format; }
const Shape& Backward::input_shape(std::size_t i) const { return node_.inputs()[i].shape; }
DType Backward::input_dtype(std::size_t i) const { return node_.inputs()[i].dtype; }
bool Backward::needs(std::size_t i) const { return i < inputs() && node_.inputs()[i].needs_grad(); }

DType Backward::grad_dtype(std::size_t i) const {
  const NodeInput& input = node_.inputs()[i];
  const bool is_copy = input.node && input.node->op().takes_f32_grad;
  return is_copy && is_lower(input.dtype) ? DType::kF32 : input.dtype;
}

void Backward::set(std::size_t i, Tensor grad) {
  MEZZO_INVARIANT(grad.defined() && grad.shape() == input_shape(i));
  grad_inputs_[i] = std::move(grad);
}

const Attrs& Backward::attrs_of(const Backward& backward) { return backward.node_.attrs(); }

}  // namespace mezzo
