#include "mezzo/autograd/engine.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "mezzo/autograd/leaf_uses.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo {
namespace {

// True if the tensor can be overwritten: nobody else uses it, and no two of its elements share
// memory, as in the gradient of a sum.
bool is_writable(const Tensor& tensor) { return tensor.is_unshared() && tensor.is_one_block(); }

// A gradient that a leaf may keep: nobody else, such as another leaf or the caller of backward(),
// uses its memory, its elements do not overlap, and it holds no graph. A captured step keeps all
// its values and copies shared ones itself.
Tensor of_its_own(const Tensor& grad) {
  if (!grad.is_one_block() || (capture_hook() == nullptr && !grad.is_unshared())) {
    return affine(grad.detach(), 1, -0.0);  // a copy: adding -0.0 changes no value
  }
  return grad.requires_grad() ? grad.detach() : grad;
}

// sum += more. Keeps the graph of both if the backward pass is itself recorded.
void accumulate(Tensor& sum, Tensor more, bool create_graph) {
  if (!sum.defined()) {
    sum = std::move(more);
  } else if (!create_graph && sum.dtype() == more.dtype() && is_writable(sum)) {
    add_into(sum, more);
  } else {
    sum = add(sum, more);
  }
}

// Adds another gradient of a leaf, in the leaf's dtype, to their sum. In 16 bits a sum would stop
// growing where an addend is below half of its last bit: a thousand ones in bf16 add up to 256. So
// the sum of two gradients is f32, and a single gradient keeps its 16 bits.
void accumulate_at_leaf(const Tensor& leaf, Tensor& sum, Tensor more, bool create_graph) {
  const AutogradMeta* meta = leaf.autograd_meta();
  const bool widens = meta == nullptr || !meta->stands_for_result;
  if (widens && sum.defined() && is_lower(sum.dtype())) sum = sum.astype(DType::kF32);
  const bool in_place = sum.defined() && !create_graph && is_writable(sum) &&
                        promote(sum.dtype(), more.dtype()) == sum.dtype();
  if (in_place) {
    add_into(sum, more);
  } else {
    accumulate(sum, std::move(more), create_graph);
  }
}

// The tensors for which grad() wants gradients: leaves by their array, others by node and output.
class Targets {
 public:
  explicit Targets(std::span<const Tensor> inputs) : grads_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      check_arg(input.requires_grad(), "grad", "input ", i, " (", input,
                ") takes no part in differentiation. Call set_requires_grad(true) on it before the "
                "forward pass");
      const Node* node = node_of(input);
      if (node != nullptr) {
        outputs_.emplace(node, std::pair(input.autograd_meta()->output, i));
        oldest_ = std::min(oldest_, node->sequence());
      } else {
        const auto [found, is_new] = leaves_.emplace(input.impl(), i);
        if (!is_new) named_again_.emplace_back(i, found->second);
        if (is_new && is_lower(input.dtype())) narrow_.emplace_back(i, input.dtype());
        oldest_ = 0;
      }
    }
  }

  // The slot for the gradient of a leaf, or null.
  Tensor* leaf(const TensorImpl* impl) {
    const auto found = leaves_.find(impl);
    return found != leaves_.end() ? &grads_[found->second] : nullptr;
  }
  // Stores the gradients of a node's outputs.
  void note(Node& node) {
    const auto [begin, end] = outputs_.equal_range(&node);
    for (auto it = begin; it != end; ++it) {
      grads_[it->second.second] = node.outputs()[it->second.first].grad;
    }
  }
  // Nodes older than every target cannot contribute.
  bool is_needed(const Node& node) const { return node.sequence() >= oldest_; }
  // Rounds the sums of 16-bit leaves, once.
  void round() {
    for (const auto& [i, dtype] : narrow_) {
      if (grads_[i].defined()) grads_[i] = grads_[i].astype(dtype);
    }
  }
  std::vector<Tensor> take() {
    for (const auto& [again, first] : named_again_) grads_[again] = grads_[first];
    return std::move(grads_);
  }

 private:
  std::unordered_map<const TensorImpl*, std::size_t> leaves_;
  std::vector<std::pair<std::size_t, std::size_t>> named_again_;  // further positions of a leaf
  std::vector<std::pair<std::size_t, DType>> narrow_;             // 16-bit leaves
  std::unordered_multimap<const Node*, std::pair<std::uint32_t, std::size_t>> outputs_;
  std::vector<Tensor> grads_;
  std::uint64_t oldest_ = ~std::uint64_t{0};
};

class Engine {
 public:
  Engine(BackwardOptions options, Targets* targets)
      : options_(options), targets_(targets), mode_(options.create_graph) {
    if (targets == nullptr && leaf_listener() != nullptr) uses_.emplace(*leaf_listener());
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    for (const Ref<Node>& node : heap_) clear_grads(*node);
  }

  void seed(const Tensor& output, Tensor grad) {
    Node* node = node_of(output);
    if (uses_.has_value() && node != nullptr) uses_->add(*node);
    if (node != nullptr) {
      send(*node, output.autograd_meta()->output, std::move(grad));
    } else {
      send_to_leaf(output, std::move(grad));
    }
  }

  // A node is always newer than the nodes it depends on. So if the newest node is taken first, all
  // gradients of its outputs have arrived.
  void run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), is_older);
      const Ref<Node> node = std::move(heap_.back());
      heap_.pop_back();
      if (targets_ != nullptr) targets_->note(*node);
      if (targets_ == nullptr || targets_->is_needed(*node)) step(*node);
      clear_grads(*node);
    }
    if (targets_ != nullptr && !options_.f32_sums) targets_->round();
  }

 private:
  static bool is_older(const Ref<Node>& a, const Ref<Node>& b) {
    return a->sequence() < b->sequence();
  }
  static void clear_grads(Node& node) {
    for (NodeOutput& output : node.outputs()) output.grad = output.other_grad = Tensor();
  }

  void send(Node& node, std::uint32_t output, Tensor grad) {
    const bool waiting = std::any_of(node.outputs().begin(), node.outputs().end(),
                                     [](const NodeOutput& o) { return o.grad.defined(); });
    if (!waiting) {
      heap_.push_back(Ref<Node>(&node));
      std::push_heap(heap_.begin(), heap_.end(), is_older);
    }
    NodeOutput& slot = node.outputs()[output];
    // The backward of an op runs in its forward's dtype. A cast accepts f32: rounding a parameter's
    // gradient to 16 bits and back would only lose bits.
    if (grad.dtype() != slot.spec.dtype && !node.op().takes_f32_grad) {
      grad = grad.astype(slot.spec.dtype);
    }
    if (!slot.grad.defined() || !adds_itself(node, output)) {
      accumulate(slot.grad, std::move(grad), options_.create_graph);
    } else {
      if (slot.other_grad.defined()) accumulate(slot.grad, std::move(slot.other_grad), false);
      slot.other_grad = std::move(grad);
    }
  }

  // Whether the operation adds the last gradient itself. In a capture a pass arranges that, and
  // grad() may need the sum.
  bool adds_itself(const Node& node, std::uint32_t output) const {
    return output == 0 && node.op().adds_grads && !options_.create_graph && targets_ == nullptr &&
           capture_hook() == nullptr;
  }

  // `is_sum`: a sum of several gradients, which keeps the precision that it would have at the leaf.
  void send_to_leaf(const Tensor& leaf, Tensor grad, bool is_sum = false) {
    const bool stays = is_sum && is_lower(leaf.dtype()) && grad.dtype() == DType::kF32;
    if (grad.dtype() != leaf.dtype() && !stays) grad = grad.astype(leaf.dtype());
    if (targets_ != nullptr) {
      if (Tensor* slot = targets_->leaf(leaf.impl()); slot != nullptr) {
        accumulate_at_leaf(leaf, *slot, std::move(grad), options_.create_graph);
      }
      return;
    }
    AutogradMeta& meta = leaf.require_autograd_meta();
    if (!meta.requires_grad) return;  // frozen since the forward pass
    if (!meta.grad.defined() && !options_.create_graph) grad = of_its_own(grad);
    accumulate_at_leaf(leaf, meta.grad, std::move(grad), options_.create_graph);
  }

  void step(Node& node) {
    std::array<Tensor, kMaxOutputs> grad_outputs;
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      grad_outputs[i] = std::move(node.outputs()[i].grad);
    }
    std::vector<Tensor> grad_inputs(node.inputs().size());
    const bool retains = options_.retain_graph || options_.create_graph;
    Backward context(node, grad_outputs, grad_inputs,
                     {.create_graph = options_.create_graph, .retain_graph = retains});
    const Differentiating scope(node);
    {
      const ListenToLeaves not_of_inner_passes(nullptr);
      node.op().backward(context);
    }
    if (!retains) node.release_saved();
    grad_outputs.fill(Tensor());
    for (std::size_t i = 0; i < grad_inputs.size(); ++i) {
      NodeInput& input = node.inputs()[i];
      if (!grad_inputs[i].defined() || !input.needs_grad()) continue;
      if (input.node) {
        send(*input.node, input.output, std::move(grad_inputs[i]));
      } else {
        send_to_leaf(Tensor(input.leaf), std::move(grad_inputs[i]), node.op().sums_grads);
      }
    }
    if (uses_.has_value()) uses_->end(node);
  }

  BackwardOptions options_;
  Targets* targets_;
  GradMode mode_;
  std::optional<LeafUses> uses_;  // if somebody listens
  std::vector<Ref<Node>> heap_;
};

// The initial gradients, all checked: if one is wrong, nothing has changed.
std::vector<Tensor> checked_seeds(std::span<const Tensor> outputs,
                                  std::span<const Tensor> grad_outputs) {
  check_arg(grad_outputs.empty() || grad_outputs.size() == outputs.size(), "backward",
            outputs.size(), " outputs, but ", grad_outputs.size(),
            " gradients of them. Give one for each output");
  std::vector<Tensor> seeds;
  seeds.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    check_arg(output.requires_grad(), "backward", "the tensor (", output,
              ") was not computed from anything that requires a gradient. Call "
              "set_requires_grad(true) on the parameters, and do not record under NoGrad");
    Tensor grad = i < grad_outputs.size() ? grad_outputs[i] : Tensor();
    if (!grad.defined()) {
      check_arg(output.numel() == 1, "backward", "the tensor has shape ", output.shape(),
                ". Reduce it to a scalar, or pass the gradient to start from");
      grad = full(output.shape(), 1, output.dtype(), Format::kContiguous, output.device());
    }
    check_arg(grad.shape() == output.shape(), "backward", "the gradient has shape ", grad.shape(),
              ", the tensor ", output.shape(), ". Give it the shape of the tensor");
    check_arg(can_have_gradients(grad.dtype()), "backward", "the gradient is ", grad.dtype(),
              ", but must be a float of 16 bits or more like the tensor (", output,
              "). Use astype()");
    seeds.push_back(std::move(grad));
  }
  return seeds;
}

void differentiate(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
                   BackwardOptions options, Targets* targets) {
  // The backward of an op runs in its forward's dtype, not in that of a region around backward().
  PrecisionHook* hook = precision_hook();
  struct Restore {
    PrecisionHook* hook;
    CaptureHook* capture;
    ~Restore() {
      set_precision_hook(hook);
      if (capture != nullptr) capture->end_backward();
    }
  } restore{hook, capture_hook()};
  set_precision_hook(nullptr);
  if (restore.capture != nullptr) restore.capture->begin_backward();
  std::vector<Tensor> seeds = checked_seeds(outputs, grad_outputs);
  Engine engine(options, targets);
  for (std::size_t i = 0; i < outputs.size(); ++i) engine.seed(outputs[i], std::move(seeds[i]));
  engine.run();
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs,
              BackwardOptions options) {
  differentiate(outputs, grad_outputs, options, nullptr);
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, BackwardOptions options) {
  Targets targets(inputs);
  differentiate(outputs, grad_outputs, options, &targets);
  return targets.take();
}

void add_to_grad(const Tensor& leaf, Tensor grad) {
  Tensor sum = leaf.grad();
  leaf.clear_grad();  // so that the sum can be added to in place
  accumulate_at_leaf(leaf, sum, std::move(grad), false);
  leaf.set_grad(std::move(sum));
}

std::function<ValueAndGrad()> value_and_grad(std::function<Tensor()> loss,
                                             std::vector<Tensor> inputs) {
  return [loss = std::move(loss), inputs = std::move(inputs)] {
    const GradMode recording(true);
    ValueAndGrad result;
    result.value = loss();
    result.grads = grad({&result.value, 1}, inputs);
    result.value = result.value.detach();
    return result;
  };
}

void Tensor::backward(const Tensor& grad_output, bool retain_graph) const {
  mezzo::backward({this, 1}, {&grad_output, 1}, {.retain_graph = retain_graph});
}

}  // namespace mezzo
